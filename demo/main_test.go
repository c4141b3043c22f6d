package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// That the locks prevent dangling references, the demo itself shows: it fails otherwise.
func TestVerdict(t *testing.T) {
	for says, change := range map[string]func(*report){
		"The locks work.":         func(*report) {},
		"true, 1 dangling":        func(r *report) { r.late.dangling = 1 },
		"the race did not happen": func(r *report) { r.without.Dangling = 0 },
		"WITH LOCKS 3 of 508":     func(r *report) { r.with.Dangling = 3 },
		"no operation ended":      func(r *report) { r.with.counts = nil },
		"noticed false":           func(r *report) { r.late.noticed = false },
	} {
		r := found()
		change(&r)
		if text := r.judge(); r.good != (says == "The locks work.") || !strings.Contains(text, says) {
			t.Errorf("good %t, and %q is wanted in:\n%s", r.good, says, text)
		}
	}
}

func found() report {
	return report{
		without: result{scan: scan{Contacts: 896, Dangling: 250}},
		with:    result{scan: scan{Contacts: 508}, counts: map[string]int{operations: 3800}},
		late:    lateWriteResult{noticed: true},
	}
}

// docs/start.md shows the table and the verdict on the races, with other numbers.
func TestPageShowsTheReport(t *testing.T) {
	page, err := os.ReadFile("../docs/start.md")
	if err != nil {
		t.Fatal(err)
	}
	words := func(text string) string {
		return strings.Join(strings.Fields(regexp.MustCompile(`\d[\d.]*`).ReplaceAllString(text, "0")), " ")
	}
	r := found()
	r.late.leftOut = true
	if want := words(r.table() + r.judge()); !strings.Contains(words(string(page)), want) {
		t.Errorf("docs/start.md doesn't show %q", want)
	}
}
