package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/doclock/doclock/relations"
)

// rules finds faults and findings, and draws. internal/browsertest uses its page.
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
	p.want(exitUsage, []string{"give one"}, "rules", "fair", "--mermaid", "--json")
	if out := p.want(0, nil, "rules", "semaphore:3", "--mermaid"); out != relations.Semaphore(3).Mermaid() {
		t.Errorf("as Mermaid: %s", out)
	}
	var read struct {
		Tags, Starvations []string
		Rules             relations.Rules
	}
	if out := p.want(0, nil, "rules", "write-preferring", "--json"); json.Unmarshal([]byte(out), &read) != nil || len(read.Tags) != 2 || len(read.Starvations) != 2 || len(read.Rules) != 2 {
		t.Errorf("as JSON: %s", out)
	}
	page := filepath.Join(t.TempDir(), "rules.html")
	for arg, want := range map[string]string{"": `"start":{"read":{"cooperative":["write"]},"write":{`, "semaphore:7": `"start":{"slot":{"assertive":[{"tag":"slot","allow":6}]}}`} {
		p.want(0, nil, append([]string{"rules", "--html", page}, strings.Fields(arg)...)...)
		if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the page for %q has no %s (%v)", arg, want, err)
		}
	}
	p.want(exitUsage, []string{"give RULES"}, "rules")
	p.want(exitUsage, []string{"give one"}, "rules", "fair", "--html", page, "--json")
	wellFormed(t, p.want(0, []string{"<svg", ">write<", ">assertive"}, "rules", "write-preferring", "--svg"))
}

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
	}
}
