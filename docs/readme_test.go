package docs_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The README is short, and in this order.
func TestReadmeIsTheFirstScreen(t *testing.T) {
	readme := source(t, "README.md")
	const most = 200
	if n := strings.Count(readme, "\n"); n > most {
		t.Errorf("%d lines, %d are the most", n, most)
	}
	var parts []string
	for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(readme, -1) {
		parts = append(parts, m[1])
	}
	want := []string{"Install", "What it is for, and what else there is", "Not promised", "Which call", "Testing your program",
		"Operating", "Rules", "Figures", "Two commands", "More"}
	if !slices.Equal(parts, want) {
		t.Errorf("%q, want %q", parts, want)
	}
}

// The last lines of "go test ./..." are those of the last packages.
func TestReadmeShowsTheLastPackages(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "./../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	var shown []string
	for _, m := range regexp.MustCompile(`(?m)^ok  \t(\S+)\t[\d.]+s$`).FindAllStringSubmatch(source(t, "README.md"), -1) {
		shown = append(shown, m[1])
	}
	if len(shown) == 0 || !slices.Equal(shown, packages[len(packages)-len(shown):]) {
		t.Errorf("README.md shows %q, and the last packages are %q", shown, packages[len(packages)-2:])
	}
}

// The README's figures are those of docs/performance-tables.md.
func TestReadmeHasTheFigures(t *testing.T) {
	figures := section(t, "README.md", "## Figures")
	run := source(t, "docs/performance-tables.md")
	for row, figure := range map[string]string{
		"1. pair: time, over two plain findOneAndUpdate": "%s times as long as two plain",
		"2. rmw: commands": "| %s commands; 1.",
		"2. rmw: time, over the optimistic version loop":       "%s times as long as a version field's",
		"3. hot64: commands per critical section":              "| %s command a change",
		"3. hot64: throughput, over the optimistic loop":       "%s times as many changes",
		"5. idle 30 s: commands of 100 waiters in one process": "| %s commands in all",
	} {
		if want := fmt.Sprintf(figure, measured(t, run, row)); !strings.Contains(figures, want) {
			t.Errorf("README.md does not have %q", want)
		}
	}
	_, hot, _ := strings.Cut(run, "### hot64:")
	m := regexp.MustCompile(`(?m)^\| optimistic \| \d+ \| ([\d.]+) \|`).FindStringSubmatch(hot)
	if m == nil || !strings.Contains(source(t, "README.md"), "[sends "+m[1]+" commands a change]") {
		t.Errorf("README.md does not have the commands of the version field, %q", m)
	}
}

// measured is the figure in a row of the targets' table.
func measured(t *testing.T, tables, row string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + ` \| [^|]* \| ([\d.]+) \|`).FindStringSubmatch(tables)
	if m == nil {
		t.Fatalf("docs/performance-tables.md has no row %q", row)
	}
	return m[1]
}

// section is a page's text from a heading to the next one.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(source(t, page), heading+"\n")
	if !found {
		t.Fatalf("%s has no %q", page, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}
