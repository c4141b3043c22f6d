package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// A report is what the program found.
type report struct {
	Server     string          `json:"server"`
	Seed       uint64          `json:"seed"`
	Contacts   int             `json:"contacts"`
	Categories int             `json:"categories"`
	Processes  int             `json:"processes"`
	Adders     int             `json:"addersPerProcess"`
	Deleters   int             `json:"deletersPerProcess"`
	Work       string          `json:"work"`
	Runs       []result        `json:"runs"`
	LateWrite  lateWriteResult `json:"lateWrite"`
	Verdict    []string        `json:"verdict"`
	Good       bool            `json:"good"`
}

func newReport(s settings, server string) report {
	return report{
		Server:     server,
		Seed:       s.seed,
		Contacts:   contactCount,
		Categories: len(categoryNames),
		Processes:  s.processes,
		Adders:     s.adders(),
		Deleters:   s.deleters(),
		Work:       s.work.String(),
	}
}

// judge adds the verdict, in sentences, and whether all parts ended as they should.
func (r *report) judge() {
	r.Good = true
	add := func(good bool, format string, args ...any) {
		r.Good = r.Good && good
		r.Verdict = append(r.Verdict, fmt.Sprintf(format, args...))
	}
	without, with := r.Runs[0], r.Runs[1]
	if without.Dangling > 0 {
		add(true, "Without locks %d of %d references point to categories that don't exist.", without.Dangling, without.References)
	} else {
		add(false, "Without locks no reference dangles: the race did not happen. Try a longer -duration, or more -work.")
	}
	switch {
	case with.Dangling == 0 && without.Dangling > 0:
		add(true, "With locks none of %d does. The locks work.", with.References)
	case with.Dangling == 0:
		add(true, "With locks none of %d does.", with.References)
	default:
		add(false, "WITH LOCKS %d of %d do. The locks have failed.", with.Dangling, with.References)
	}
	if with.operations() == 0 {
		add(false, "With locks no operation ended.")
	}
	switch late := r.LateWrite; {
	case late.LeftOut != "":
	case late.Noticed && late.Dangling == 1 && late.After == 0:
		add(true, "A lock can't stop the late write of a stopped process to another document, but the process notices the loss, and takes the write back.")
	default:
		add(false, "THE LATE WRITE was not noticed and taken back: noticed %t, %d dangling before the release and %d after it, instead of true, 1 and 0.",
			late.Noticed, late.Dangling, late.After)
	}
}

// writeTable writes the two runs side by side.
func (r *report) writeTable(out io.Writer) {
	const columns = "  %-34s%16s%13s\n"
	row := func(name, format string, value func(result) any) {
		_, _ = fmt.Fprintf(out, columns, name, fmt.Sprintf(format, value(r.Runs[0])), fmt.Sprintf(format, value(r.Runs[1])))
	}
	_, _ = fmt.Fprintf(out, columns, "", "without locks", "with locks")
	row("operations", "%d", func(x result) any { return x.Operations })
	row("  categories put on contacts", "%d", func(x result) any { return x.Added })
	row("  categories deleted", "%d", func(x result) any { return x.Deleted })
	row("  no category of that name", "%d", func(x result) any { return x.Gone })
	row("  lock lost", "%d", func(x result) any { return x.Lost })
	row("conflicts: refused or made to wait", "%d", func(x result) any { return x.Conflicts })
	row("references found by a full scan", "%d", func(x result) any { return x.References })
	row("  DANGLING REFERENCES", "%d", func(x result) any { return x.Dangling })
	row("operations a second", "%.0f", func(x result) any { return x.OperationsPerSecond })
	row("commands a second", "%.0f", func(x result) any { return x.CommandsPerSecond })
	row("seconds", "%.1f", func(x result) any { return x.Seconds })
}

func (r *report) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

func (r *report) verdict() string { return strings.Join(r.Verdict, "\n") }
