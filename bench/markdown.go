package main

import (
	"fmt"
	"os"
	"strings"
)

// The text between these markers in the Markdown file is the benchmark's.
const (
	markBegin = "<!-- bench:begin -->"
	markEnd   = "<!-- bench:end -->"
)

// writeMarkdown replaces the text between the markers.
func (r *report) writeMarkdown(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), markBegin)
	_, after, ended := strings.Cut(rest, markEnd)
	if !found || !ended {
		return fmt.Errorf("%s has no %s and %s to write between", file, markBegin, markEnd)
	}
	return os.WriteFile(file, []byte(before+markBegin+"\n"+r.markdown()+markEnd+after), 0o644)
}

func (r *report) markdown() string {
	var w strings.Builder
	for _, line := range r.setting() {
		fmt.Fprintf(&w, "- %s\n", line)
	}
	for _, t := range r.tables() {
		fmt.Fprintf(&w, "\n### %s\n\n", t.title)
		rule := make([]string, len(t.head))
		for i := range rule {
			rule[i] = "---"
		}
		for _, row := range append([][]string{t.head, rule}, t.rows...) {
			fmt.Fprintf(&w, "| %s |\n", strings.Join(row, " | "))
		}
	}
	return w.String()
}
