package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testdata/mutants.json lists edits of the source that must each make a test
// fail: a rule of the protocol taken out (rule is its number), or something
// else broken (rule is 0). Applied by `go test -overlay`, each was seen to.
// Here they are only held to the source, so that they can be applied.
func TestMutantsCanBeApplied(t *testing.T) {
	data, err := os.ReadFile("testdata/mutants.json")
	if err != nil {
		t.Fatal(err)
	}
	var mutants []struct {
		Name, File, Old, New, Test string
		Rule                       int
	}
	if err := json.Unmarshal(data, &mutants); err != nil {
		t.Fatal(err)
	}
	tests := sources(t, "*_test.go")
	rules := sources(t, "rules*_test.go")
	names := map[string]bool{}
	for _, m := range mutants {
		source, err := os.ReadFile(filepath.Join("..", "..", m.File))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.Old); n != 1 {
			t.Errorf("%s: its old text stands %d times in %s", m.Name, n, m.File)
		}
		if m.Old == m.New || names[m.Name] {
			t.Errorf("%s: edits nothing, or is there twice", m.Name)
		}
		names[m.Name] = true
		for _, test := range strings.Split(m.Test, "|") {
			function, _, _ := strings.Cut(test, "/")
			if !strings.Contains(tests, "func "+function) {
				t.Errorf("%s: there is no test %s", m.Name, function)
			}
		}
		if m.Rule > 0 && !strings.Contains(rules, m.Name) {
			t.Errorf("%s: no test of a rule names it", m.Name)
		}
	}
}

func sources(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(source)
	}
	return all.String()
}
