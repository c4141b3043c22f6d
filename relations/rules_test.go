package relations

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKindString(t *testing.T) {
	for kind, want := range map[Kind]string{
		None: "none", Cooperative: "cooperative", Assertive: "assertive", 7: "Kind(7)",
	} {
		if got := kind.String(); got != want {
			t.Errorf("Kind %d: %q, want %q", uint8(kind), got, want)
		}
	}
}

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

func TestRelationString(t *testing.T) {
	for want, rel := range map[string]Relation{
		"none":               {},
		"cooperative":        {Kind: Cooperative},
		"assertive, allow 2": {Kind: Assertive, Allow: 2},
	} {
		if got := rel.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAbsentRelationsAreNone(t *testing.T) {
	r := Rules{"read": nil}
	if r["read"]["write"] != (Relation{}) || r["who"]["read"] != (Relation{}) {
		t.Error("an absent relation is not the zero Relation")
	}
	if (Relation{}).Kind != None {
		t.Error("the zero Relation is not none")
	}
}

func TestCloneSharesNothing(t *testing.T) {
	original := WritePreferring()
	original["audit"] = nil
	clone := original.Clone()
	want := WritePreferring()
	want["audit"] = nil
	if diff := cmp.Diff(want, clone); diff != "" {
		t.Errorf("the clone differs (-want +got):\n%s", diff)
	}
	clone["read"]["read"] = Relation{Kind: Assertive}
	clone["more"] = nil
	delete(clone["write"], "read")
	if diff := cmp.Diff(want, original); diff != "" {
		t.Errorf("a change of the clone changed the original (-want +got):\n%s", diff)
	}
	if Rules(nil).Clone() != nil {
		t.Error("the clone of nil is not nil")
	}
}

func TestTagsAreSorted(t *testing.T) {
	r := Rules{"b": nil, "a": nil, "Z": {}, "c": {"a": {Kind: Cooperative}}}
	if diff := cmp.Diff([]string{"Z", "a", "b", "c"}, r.Tags()); diff != "" {
		t.Error(diff)
	}
}
