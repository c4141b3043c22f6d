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
		"as in the comment": {WritePreferring(), `
         read         write
read     -            cooperative ∞
write    assertive    cooperative ∞
`},
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

func TestMermaid(t *testing.T) {
	rules := Rules{
		"a":    {"b": {Kind: Assertive}},
		"b":    {"a": {Kind: Assertive}},
		"end":  {"end": {Kind: Assertive, Allow: 2}, "x\"y": {Kind: Cooperative}, "?": {Kind: Cooperative}},
		"x\"y": {"end": {}},
	}
	want := `graph LR
    t0["a"]
    t1["b"]
    t2["end"]
    t3["#quot;x\#quot;y#quot;"]
    t0 <==>|"assertive"| t1
    t2 ==>|"assertive, allow 2"| t2
    t2 -.->|"cooperative ∞"| t3
`
	if diff := cmp.Diff(want, rules.Mermaid()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The drawings in the comments are those that the code draws.
func TestDrawingsInCommentsAreTrue(t *testing.T) {
	source, err := os.ReadFile("draw.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, drawing := range []string{WritePreferring().Matrix(), WritePreferring().Mermaid()} {
		comment := "//\t" + strings.ReplaceAll(strings.TrimSuffix(drawing, "\n"), "\n", "\n//\t") + "\n"
		if !strings.Contains(string(source), comment) {
			t.Errorf("draw.go doesn't show\n%s", comment)
		}
	}
}
