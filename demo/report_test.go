package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func exampleReport() report {
	return report{
		Runs: []result{
			newResult(false, Counts{Added: 7900, Deleted: 160, Gone: 93, Commands: 16000},
				finding{References: 896, Dangling: 250}, []time.Duration{4 * time.Second, 5 * time.Second}),
			newResult(true, Counts{Added: 3800, Deleted: 140, Gone: 286, Lost: 1, Conflicts: 545, Commands: 12500},
				finding{References: 508}, []time.Duration{5 * time.Second, 5 * time.Second}),
		},
		LateWrite: story{Noticed: true, Dangling: 1},
	}
}

func TestTable(t *testing.T) {
	const want = `
                                       without locks   with locks
  operations                                    8153         4227
    categories put on contacts                  7900         3800
    categories deleted                           160          140
    in vain: category gone already                93          286
    lock lost on the way                           0            1
  conflicts: others were in the way                0          545
  references found by a full scan                896          508
    DANGLING REFERENCES                          250            0
  operations a second                           1631          845
  commands a second                             3200         2500
  seconds                                        5.0          5.0
`
	r := exampleReport()
	var got bytes.Buffer
	r.writeTable(&got)
	if got.String() != want[1:] {
		t.Errorf("got\n%s\nwant%s", &got, want)
	}
}

func TestVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*report)
		good   bool
		says   string
	}{
		"as it should be":     {func(*report) {}, true, "With locks none of 508 does. The locks won."},
		"scene left out":      {func(r *report) { r.LateWrite = story{LeftOut: "no signals"} }, true, "The locks won."},
		"race has not shown":  {func(r *report) { r.Runs[0].Dangling = 0 }, false, "the race has not shown"},
		"locks have failed":   {func(r *report) { r.Runs[1].Dangling = 3 }, false, "WITH LOCKS 3 of 508"},
		"nothing done":        {func(r *report) { r.Runs[1].Counts = Counts{} }, false, "nothing was done"},
		"loss not noticed":    {func(r *report) { r.LateWrite.Noticed = false }, false, "THE LATE WRITE"},
		"write was not late":  {func(r *report) { r.LateWrite.Dangling = 0 }, false, "THE LATE WRITE"},
		"it was not put back": {func(r *report) { r.LateWrite.After = 1 }, false, "THE LATE WRITE"},
	} {
		t.Run(name, func(t *testing.T) {
			r := exampleReport()
			test.change(&r)
			r.judge()
			if r.Good != test.good || !strings.Contains(r.verdict(), test.says) {
				t.Errorf("good %t, want %t and %q in:\n%s", r.Good, test.good, test.says, r.verdict())
			}
		})
	}
}

func TestNarratorWritesOverItsProgress(t *testing.T) {
	var terminal bytes.Buffer
	n := newNarrator(&terminal, &terminal)
	n.terminal = true
	progress := n.progress()
	time.Sleep(110 * time.Millisecond)
	progress(Counts{Added: 1})
	n.say("done")
	if got := terminal.String(); !strings.HasSuffix(got, "1 put on contacts, 0 categories deleted, 0 conflicts\r\x1b[Kdone\n") {
		t.Errorf("got %q", got)
	}
}
