package main

import (
	"fmt"
	"strings"
)

// A report is what the program found.
type report struct {
	without, with result
	late          lateWriteResult
	good          bool // all parts ended as they should
}

// judge is the verdict, in sentences, and sets whether it is good.
func (r *report) judge() string {
	r.good = true
	var verdict []string
	add := func(good bool, format string, args ...any) {
		r.good = r.good && good
		verdict = append(verdict, fmt.Sprintf(format, args...))
	}
	without, with := r.without, r.with
	if without.Dangling > 0 {
		add(true, "Without locks %d of %d contacts have a category that doesn't exist.", without.Dangling, without.Contacts)
	} else {
		add(false, "Without locks no reference dangles: the race did not happen. Try a longer -duration.")
	}
	switch {
	case with.Dangling > 0:
		add(false, "WITH LOCKS %d of %d have. The locks have failed.", with.Dangling, with.Contacts)
	case with.counts[operations] == 0:
		add(false, "With locks no operation ended.")
	case without.Dangling > 0:
		add(true, "With locks none of %d has. The locks work.", with.Contacts)
	default:
		add(true, "With locks none of %d has.", with.Contacts)
	}
	switch late := r.late; {
	case late.leftOut:
	case late.noticed && late.dangling == 0:
		add(true, "The late write of a stopped process to another document was refused: there is nothing to take back.")
	default:
		add(false, "THE LATE WRITE was not refused: noticed %t, %d dangling, instead of true and 0.", late.noticed, late.dangling)
	}
	return strings.Join(verdict, "\n")
}

// table shows the two races side by side.
func (r *report) table() string {
	var out strings.Builder
	row := func(name string, without, with any) { fmt.Fprintf(&out, "  %-36s%16v%13v\n", name, without, with) }
	row("", "without locks", "with locks")
	for _, what := range []string{operations, added, deleted, inUse, gone, lost, conflicts} {
		row(what, r.without.counts[what], r.with.counts[what])
	}
	row("contacts found by a full scan", r.without.Contacts, r.with.Contacts)
	row("  DANGLING REFERENCES", r.without.Dangling, r.with.Dangling)
	return out.String()
}
