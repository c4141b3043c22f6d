package relations

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The table of docs/protocol.md is that of the code.
func TestEffectsOfTheProtocol(t *testing.T) {
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	names := [...]string{Ignored: "ignored", Blocked: "blocked", Refused: "refused"}
	table := "| relation | an arrival | a waiting entry |\n|---|---|---|\n"
	for _, kind := range []Kind{None, Cooperative, Assertive} {
		table += fmt.Sprintf("| %v | %s | %s |\n", kind, names[kind.Arriving()], names[kind.Waiting()])
	}
	if !strings.Contains(string(page), table+"\n") {
		t.Errorf("it doesn't have\n%s", table)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	original := WritePreferring()
	clone := original.Clone()
	if diff := cmp.Diff(original, clone); diff != "" {
		t.Errorf("the clone differs (-want +got):\n%s", diff)
	}
	clone["read"]["read"] = Relation{Kind: Assertive}
	clone["more"] = nil
	if diff := cmp.Diff(WritePreferring(), original); diff != "" {
		t.Errorf("a change of the clone changed the original (-want +got):\n%s", diff)
	}
	if Rules(nil).Clone() != nil {
		t.Error("the clone of nil is not nil")
	}
}
