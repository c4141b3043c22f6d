package docs_test

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The drawing in CONTRIBUTING.md has the imports of the packages that it shows, without those that follow from others.
func TestTheHouseIsAsDrawn(t *testing.T) {
	const module = "github.com/doclock/doclock"
	shown := []string{"", "relations", "writelock", "multilock", "admin", "internal/engine", "internal/attempt", "internal/lease", "internal/waitqueue", "internal/claims"}
	deps := map[string][]string{}
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, module+"/...").Output()
	must(t, err)
	for line := range strings.Lines(string(out)) {
		var ours []string
		for _, name := range strings.Fields(line) {
			if name == module || strings.HasPrefix(name, module+"/") {
				ours = append(ours, strings.TrimPrefix(strings.TrimPrefix(name, module), "/"))
			}
		}
		deps[ours[0]] = slices.DeleteFunc(ours[1:], func(dep string) bool { return !slices.Contains(shown, dep) })
	}
	name := func(pkg string) string {
		if pkg == "" {
			return "doclock"
		}
		return path.Base(pkg)
	}
	var want strings.Builder
	want.WriteString("graph TD\n")
	for _, pkg := range shown {
		for _, dep := range deps[pkg] {
			follows := func(other string) bool { return slices.Contains(deps[other], dep) }
			if !slices.ContainsFunc(deps[pkg], follows) {
				want.WriteString("  " + name(pkg) + " --> " + name(dep) + "\n")
			}
		}
	}
	page := source(t, "CONTRIBUTING.md")
	drawing := regexp.MustCompile("(?s)(```mermaid\n)(.*?)(```)")
	fresh := drawing.ReplaceAllString(page, "${1}"+want.String()+"${3}")
	if fresh != page && *update {
		must(t, os.WriteFile("../CONTRIBUTING.md", []byte(fresh), 0o644))
	} else if fresh != page {
		t.Errorf("CONTRIBUTING.md must have this drawing; go test ./docs -update writes it:\n%s", want.String())
	}
}
