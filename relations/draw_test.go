package relations

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMatrix(t *testing.T) {
	for name, test := range map[string]struct {
		rules Rules
		want  string
	}{
		"on a long path the first step has the mark": {Rules{"a": {"b": {Kind: Assertive}}, "b": {"a": {Kind: Assertive}, "c": {Kind: Assertive}}, "c": {}}, `
     a            b              c
a    -            assertive ∞    -
b    assertive    -              assertive ∞
c    -            -              -
`},
		"with an allow": {Rules{"slot": {"slot": {Kind: Assertive, Allow: 12}}, "a": nil}, `
        a    slot
a       -    -
slot    -    assertive, allow 12
`},
		"invalid rules": {Rules{"a\n": {"b": {Kind: Assertive}, "a\n": {Kind: 5}}}, `
         "a\n"
"a\n"    Kind(5)
`},
	} {
		if diff := cmp.Diff(test.want, "\n"+test.rules.Matrix()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The matrix in the comment is the one that the code draws.
func TestTheMatrixInTheCommentIsTrue(t *testing.T) {
	source, err := os.ReadFile("draw.go")
	if err != nil {
		t.Fatal(err)
	}
	comment := "//\t" + strings.ReplaceAll(strings.TrimSuffix(WritePreferring().Matrix(), "\n"), "\n", "\n//\t") + "\n"
	if !strings.Contains(string(source), comment) {
		t.Errorf("draw.go doesn't show\n%s", comment)
	}
}
