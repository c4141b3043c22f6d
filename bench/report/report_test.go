package report

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/doclock/doclock/bench/measure"
	"github.com/google/go-cmp/cmp"
)

var measured = []Table{
	{Title: "What it must show", Head: []string{"what", "target"}, Rows: [][]string{{"1. pair", "≤ 1"}}},
	{Title: "idle: commands sent while waiting", Head: []string{"subject", "ops", ""}, Rows: [][]string{
		{"doclock", "", "waiters 1, window s 30, commands 46"},
		{"doclock", "", "waiters 10, window s 30, commands 50"},
		{"etcd", "", "waiters 1, window s 30, commands 3"},
	}},
	{Title: "pair-1ms: acquire and release", Head: []string{"subject", "ops", "p50 ms", ""}, Rows: [][]string{{"doclock", "120", "4.63 (4–5)", ""}}},
	{Title: "pair-5ms: acquire and release", Head: []string{"subject", "ops", "p50 ms", ""}, Rows: [][]string{{"doclock", "120", "13.7", ""}}},
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

func TestPlot(t *testing.T) {
	dir := t.TempDir()
	if err := Plot(measured, dir); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		"idle.svg":         {">doclock<", ">46<", ">50<", ">etcd<", ">3<", ">1 waiter<", ">100 waiters<"},
		"network-pair.svg": {">4.63<", ">13.7<", ">round trip 1ms<", ">round trip 5ms<"},
	} {
		svg, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if strings.Count(string(svg), text) != 1 {
				t.Errorf("%s does not have %s once:\n%s", file, text, svg)
			}
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%v, %v: want a plot for each case that was measured", files, err)
	}
}

// A ratio to a rival that did nothing is infinite.
func TestARivalThatDidNothing(t *testing.T) {
	one := &measure.Result{}
	one.AddSpread("ratio", measure.Spread{Mid: math.Inf(1), Lo: 2, Hi: math.Inf(1)})
	if text := shown(one, "ratio"); text != "+Inf (2–+Inf)" {
		t.Errorf("it is printed as %q", text)
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
	if err != nil || len(plots) < 10 {
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
