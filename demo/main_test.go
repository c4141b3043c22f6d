package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// That the locks prevent dangling references, the demo itself shows: it fails otherwise.
func TestFailures(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for says, test := range map[string]struct {
		ctx    context.Context
		args   []string
		status int
	}{
		"flag provided but not defined": {t.Context(), []string{"-nothing"}, 2},
		"-processes is 1; give 2 to 64": {t.Context(), []string{"-processes", "1"}, 2},
		"no arguments but flags":        {t.Context(), []string{"more"}, 2},
		"Usage: go run ./demo":          {t.Context(), []string{"-h"}, 0},
		"MONGODB_URI":                   {t.Context(), nil, 1},
		"interrupted":                   {interrupted, nil, 1},
	} {
		t.Setenv("MONGODB_URI", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100")
		var out, progress bytes.Buffer
		if status := run(test.ctx, test.args, &out, &progress); status != test.status || !strings.Contains(progress.String(), says) {
			t.Errorf("%q: exit status %d, want %d and %q in:\n%s", test.args, status, test.status, says, &progress)
		}
	}
}

func TestVerdict(t *testing.T) {
	for says, change := range map[string]func(*report){
		"The locks work.":         func(*report) {},
		"the race did not happen": func(r *report) { r.without.Dangling = 0 },
		"WITH LOCKS 3 of 508":     func(r *report) { r.with.Dangling = 3 },
		"no operation ended":      func(r *report) { r.with.counts = nil },
		"noticed false":           func(r *report) { r.late.noticed = false },
		"0 dangling before":       func(r *report) { r.late.dangling = 0 },
		"1 after it":              func(r *report) { r.late.after = 1 },
	} {
		r := report{
			without: result{scan: scan{Contacts: 896, Dangling: 250}, took: 5 * time.Second},
			with:    result{scan: scan{Contacts: 508}, counts: map[string]int{operations: 3800}, took: 5 * time.Second},
			late:    lateWriteResult{noticed: true, dangling: 1},
		}
		change(&r)
		r.judge()
		if text := strings.Join(r.verdict, "\n"); r.good != (says == "The locks work.") || !strings.Contains(text, says) {
			t.Errorf("good %t, and %q is wanted in:\n%s", r.good, says, text)
		}
	}
}
