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
				scanResult{References: 896, Dangling: 250}, []time.Duration{4 * time.Second, 5 * time.Second}),
			newResult(true, Counts{Added: 3800, Deleted: 140, Gone: 286, Lost: 1, Conflicts: 545, Commands: 12500},
				scanResult{References: 508}, []time.Duration{5 * time.Second, 5 * time.Second}),
		},
		LateWrite: lateWriteResult{Noticed: true, Dangling: 1},
	}
}

func TestTable(t *testing.T) {
	const want = `
                                       without locks   with locks
  operations                                    8153         4227
    categories put on contacts                  7900         3800
    categories deleted                           160          140
    no category of that name                      93          286
    lock lost                                      0            1
  conflicts: refused or made to wait               0          545
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
		"as it should be":       {func(*report) {}, true, "With locks none of 508 does. The locks work."},
		"late write left out":   {func(r *report) { r.LateWrite = lateWriteResult{LeftOut: "no signals"} }, true, "The locks work."},
		"race did not happen":   {func(r *report) { r.Runs[0].Dangling = 0 }, false, "the race did not happen"},
		"locks have failed":     {func(r *report) { r.Runs[1].Dangling = 3 }, false, "WITH LOCKS 3 of 508"},
		"no operation":          {func(r *report) { r.Runs[1].Counts = Counts{} }, false, "no operation ended"},
		"loss not noticed":      {func(r *report) { r.LateWrite.Noticed = false }, false, "THE LATE WRITE"},
		"write was not late":    {func(r *report) { r.LateWrite.Dangling = 0 }, false, "THE LATE WRITE"},
		"it was not taken back": {func(r *report) { r.LateWrite.After = 1 }, false, "THE LATE WRITE"},
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

func TestPrinterWritesOverItsProgress(t *testing.T) {
	var terminal bytes.Buffer
	p := newPrinter(&terminal, &terminal)
	p.terminal = true
	progress := p.progress()
	time.Sleep(110 * time.Millisecond)
	progress(Counts{Added: 1})
	p.print("done")
	if got := terminal.String(); !strings.HasSuffix(got, "1 put on contacts, 0 categories deleted, 0 conflicts\r\x1b[Kdone\n") {
		t.Errorf("got %q", got)
	}
}
