package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var measured = []Table{
	{Title: "What it must show", Head: []string{"what", "target"}, Rows: [][]string{{"1. pair", "≤ 1"}}},
	{Title: "idle: commands sent while waiting", Head: []string{"subject", "ops", ""}, Rows: [][]string{
		{"doclock", "", "waiters 1, window s 30, commands 46"},
		{"etcd", "", "waiters 1, window s 30, commands 3"},
	}},
}

func TestMarkdownIsReadAsItWasWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	const around = "# Page\n" + markBegin + "old\n### old: table\n" + markEnd + "\nend\n"
	if err := os.WriteFile(file, []byte(around), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteMarkdown(file, []string{"a machine"}, measured); err != nil {
		t.Fatal(err)
	}
	got, err := ReadMarkdown(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(measured, got); diff != "" {
		t.Error(diff)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.HasPrefix(s, "# Page\n"+markBegin) || !strings.HasSuffix(s, markEnd+"\nend\n") || !strings.Contains(s, "- a machine\n") {
		t.Errorf("got\n%s", s)
	}
	if err := os.WriteFile(file, []byte("no markers"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadMarkdown(file); err == nil {
		t.Error("a file without markers was read")
	}
}

// The plots in the docs are drawn from the tables of docs/performance-tables.md.
func TestPlotsAreThoseOfTheTables(t *testing.T) {
	tables, err := ReadMarkdown("../../docs/performance-tables.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := Plot(tables, dir); err != nil {
		t.Fatal(err)
	}
	plots, err := os.ReadDir(dir)
	if err != nil || len(plots) != len(charts) {
		t.Fatalf("%d plots, %v", len(plots), err)
	}
	for _, plot := range plots {
		drawn, err := os.ReadFile(filepath.Join(dir, plot.Name()))
		if err != nil {
			t.Fatal(err)
		}
		shown, err := os.ReadFile(filepath.Join("../../docs/img", plot.Name()))
		if err != nil || string(shown) != string(drawn) {
			t.Errorf("docs/img/%s is another plot (%v); -redraw draws it anew", plot.Name(), err)
		}
	}
}
