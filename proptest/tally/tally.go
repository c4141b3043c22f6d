// Package tally counts the work of a proof: the checks and violations of each
// property, the faults that fired, and the outcomes that were seen. Tallies of
// several processes can be merged. Floors fail a proof that passed because it
// did nothing.
package tally

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
)

// Tally is a sum of counts. It is safe for concurrent use. Its exported fields
// are for encoding, and for reading when the counting has ended.
type Tally struct {
	mu sync.Mutex

	Checks     map[string]int `json:"checks,omitempty"`
	Violations map[string]int `json:"violations,omitempty"`
	Details    []string       `json:"details,omitempty"` // the first violations, in words
	Faults     map[string]int `json:"faults,omitempty"`
	Outcomes   map[string]int `json:"outcomes,omitempty"`
}

const mostDetails = 20

func (t *Tally) Checked(property string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add(&t.Checks, property, n)
}

// Violated counts a violation; format describes it.
func (t *Tally) Violated(property, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add(&t.Violations, property, 1)
	if len(t.Details) < mostDetails {
		t.Details = append(t.Details, property+": "+fmt.Sprintf(format, args...))
	}
}

// Fired counts a fault that happened.
func (t *Tally) Fired(fault string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add(&t.Faults, fault, n)
}

func (t *Tally) Seen(outcome string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add(&t.Outcomes, outcome, n)
}

func (t *Tally) Merge(other *Tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for to, from := range map[*map[string]int]map[string]int{&t.Checks: other.Checks, &t.Violations: other.Violations, &t.Faults: other.Faults, &t.Outcomes: other.Outcomes} {
		for name, n := range from {
			add(to, name, n)
		}
	}
	t.Details = append(t.Details, other.Details...)
	t.Details = t.Details[:min(len(t.Details), mostDetails)]
}

// Floor is the least value that a count must reach.
type Floor struct {
	Kind  string // "check", "fault" or "outcome"
	Name  string
	Least int
}

// Floors are those of several names.
func Floors(kind string, least int, names ...string) (floors []Floor) {
	for _, name := range names {
		floors = append(floors, Floor{kind, name, least})
	}
	return floors
}

// Report fails a test by each failure, and shows the table.
func (t *Tally) Report(tb testing.TB, floors ...Floor) {
	tb.Helper()
	for _, failure := range t.Failures(floors...) {
		tb.Error(failure)
	}
	if err := t.Table(tb.Output()); err != nil {
		tb.Error(err)
	}
}

// Failures lists, in words, every violation and every floor that was not
// reached. An empty list is a pass.
func (t *Tally) Failures(floors ...Floor) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	failures := slices.Clone(t.Details)
	for _, f := range floors {
		counts := map[string]map[string]int{"check": t.Checks, "fault": t.Faults, "outcome": t.Outcomes}[f.Kind]
		if n := counts[f.Name]; n < f.Least {
			failures = append(failures, fmt.Sprintf("%s %q: %d, want at least %d", f.Kind, f.Name, n, f.Least))
		}
	}
	return failures
}

func (t *Tally) Table(w io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	section := func(title, column string, counts map[string]int, more func(string) string) {
		if len(counts) == 0 {
			return
		}
		fmt.Fprintf(tw, "%s\t%s\n", title, column)
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(tw, "  %s\t%d%s\n", name, counts[name], more(name))
		}
		fmt.Fprintln(tw)
	}
	none := func(string) string { return "" }
	section("PROPERTY", "CHECKED\tVIOLATIONS", t.Checks, func(name string) string { return fmt.Sprintf("\t%d", t.Violations[name]) })
	section("FAULT", "FIRED", t.Faults, none)
	section("OUTCOME", "SEEN", t.Outcomes, none)
	return tw.Flush()
}

func add(counts *map[string]int, name string, n int) {
	if *counts == nil {
		*counts = map[string]int{}
	}
	(*counts)[name] += n
}
