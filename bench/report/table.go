// Package report shows measurements: as tables for people, and as plots that are
// drawn from these tables, so that they can be drawn again from a Markdown file.
package report

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Table is a table of text, for any output format.
type Table struct {
	Title string // of a case: its name, a colon, and what it is about
	Head  []string
	Rows  [][]string // the last column has notes, such as "waiters 10, window s 30"
}

// The text between these markers in a Markdown file is the benchmark's.
const (
	markBegin = "<!-- bench:begin -->"
	markEnd   = "<!-- bench:end -->"
)

// WriteMarkdown replaces the text between the markers of a file.
func WriteMarkdown(file string, setting []string, tables []Table) error {
	before, _, after, err := cut(file)
	if err != nil {
		return err
	}
	var w strings.Builder
	for _, line := range setting {
		fmt.Fprintf(&w, "- %s\n", line)
	}
	for _, t := range tables {
		fmt.Fprintf(&w, "\n### %s\n\n", t.Title)
		rule := slices.Repeat([]string{"---"}, len(t.Head))
		for _, row := range append([][]string{t.Head, rule}, t.Rows...) {
			fmt.Fprintf(&w, "| %s |\n", strings.Join(row, " | "))
		}
	}
	return os.WriteFile(file, []byte(before+markBegin+"\n"+w.String()+markEnd+after), 0o644)
}

// ReadMarkdown returns the tables that WriteMarkdown wrote.
func ReadMarkdown(file string) (tables []Table, err error) {
	_, text, _, err := cut(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(text, "\n") {
		if title, found := strings.CutPrefix(line, "### "); found {
			tables = append(tables, Table{Title: title})
			continue
		}
		line, found := strings.CutPrefix(line, "| ")
		if !found || len(tables) == 0 {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, " |"), " | ")
		switch t := &tables[len(tables)-1]; {
		case t.Head == nil:
			t.Head = cells
		case cells[0] != "---":
			t.Rows = append(t.Rows, cells)
		}
	}
	return tables, nil
}

func cut(file string) (before, between, after string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", "", err
	}
	before, rest, found := strings.Cut(string(text), markBegin)
	between, after, ended := strings.Cut(rest, markEnd)
	if !found || !ended {
		return "", "", "", fmt.Errorf("%s has no %s and %s", file, markBegin, markEnd)
	}
	return before, between, after, nil
}

func (t Table) name() string {
	name, _, _ := strings.Cut(t.Title, ":")
	return name
}

// subjects are the names in the first column, each once.
func (t Table) subjects() (all []string) {
	for _, row := range t.Rows {
		if !slices.Contains(all, row[0]) {
			all = append(all, row[0])
		}
	}
	return all
}

// value is what a subject's row says of a column, or of a note. The row must
// have all notes of with.
func (t Table) value(subject, key string, with ...string) (v float64, text string, found bool) {
	for _, row := range t.Rows {
		notes := strings.Split(row[len(row)-1], ", ")
		missing := func(note string) bool { return !slices.Contains(notes, note) }
		if row[0] != subject || slices.ContainsFunc(with, missing) {
			continue
		}
		if i := slices.Index(t.Head, key); i >= 0 {
			text, _, _ = strings.Cut(row[i], " ") // a spread may follow
		}
		for _, note := range notes {
			if value, found := strings.CutPrefix(note, key+" "); found {
				text = value
			}
		}
		v, err := strconv.ParseFloat(text, 64)
		return v, text, err == nil
	}
	return 0, "", false
}
