package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/doclock/doclock/relations"
)

// rules finds faults and findings, and draws a matrix.
func TestRules(t *testing.T) {
	t.Parallel()
	p := &place{T: t} // it needs no server
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "rules.json")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	p.want(0, []string{"no faults, no findings", "assertive"}, "rules", "fair")
	p.want(0, []string{"2 findings", "can be refused for ever"}, "rules", "write-preferring")
	p.want(0, []string{"asymmetry: ", "2 findings"}, "rules", file(`{"a": {"assertive": ["b", "a"]}, "b": {"assertive": ["b"]}}`))
	p.want(exitFailed, []string{`unknown key "cooperativ"`}, "rules", file(`{"a": {"cooperativ": ["b"]}}`))
	p.want(exitFailed, []string{"not JSON"}, "rules", file(`{`))
	p.want(exitFailed, []string{"the table is null"}, "rules", file(`null`))
	p.want(exitUsage, []string{"no file, and no preset"}, "rules", "unfair")
	p.want(exitUsage, []string{"1 to"}, "rules", "semaphore:0")
	p.want(0, []string{"slot    assertive, allow 2"}, "rules", "semaphore:3")
	var read struct {
		Tags, Starvations []string
		Rules             relations.Rules
	}
	if out := p.want(0, nil, "rules", "write-preferring", "--json"); json.Unmarshal([]byte(out), &read) != nil || len(read.Tags) != 2 || len(read.Starvations) != 2 || len(read.Rules) != 2 {
		t.Errorf("as JSON: %s", out)
	}
	p.want(exitUsage, []string{"give RULES"}, "rules")
}
