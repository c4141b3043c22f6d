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
	for _, pkg := range shown {
		out, err := exec.Command("go", "list", "-deps", path.Join(module, pkg)).Output()
		must(t, err)
		for _, dep := range strings.Fields(string(out)) {
			if dep, ours := strings.CutPrefix(dep, module); ours && dep != strings.TrimSuffix("/"+pkg, "/") && slices.Contains(shown, strings.TrimPrefix(dep, "/")) {
				deps[pkg] = append(deps[pkg], strings.TrimPrefix(dep, "/"))
			}
		}
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
