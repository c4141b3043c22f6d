package simulation

import (
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/history"
)

// This file compares the counts of commands with what the driver has sent. A command
// that waits for a server counts, and is not seen.

// sentFor checks the commands of an acquire. Its caller's calls have sent them, up to
// the grant, or to the return of the last call.
func (l *ledger) sentFor(a *acquire, e *heard) {
	least, most := 0, 0
	for _, c := range l.commands {
		if !l.isFor(a, c) || c.sent.After(e.Time) || a.holding != nil && c.order > a.holding.got {
			continue
		}
		most++
		if c.sent.Before(e.Time) || !c.call.gaveUp() && !c.call.panicked && e.Kind != doclock.EventGaveUp {
			least++
		}
	}
	l.compare(e, least, most, a.by.begun)
}

// isFor says that a command was sent for the acquire, or to give its lease back.
func (l *ledger) isFor(a *acquire, c *command) bool {
	ours := false
	for _, of := range a.calls {
		ours = ours || c.call == of
	}
	if !ours || len(a.by.acquires) > 1 && c.document != a.document {
		return false
	}
	switch c.kind {
	case history.CommandRelease, history.CommandWriteAndRelease, history.CommandDetach: // of the lease
		return false
	default:
		return true
	}
}

// sentUnder checks the commands of a lease: those of its own calls and of others for
// the same entry, those of a Do that release it, and the renewals in the background.
// A command of another holder that is sent at the instant of the grant may count or not:
// the library counts it a moment before the driver's monitor sees it.
func (l *ledger) sentUnder(of *life) {
	if !l.exact() || of.granted.call.name == "Lead" {
		return
	}
	e, g := of.end, of.granted
	least, most := 0, 0
	for _, c := range l.commands {
		if c.program != of.program || c.sent.Before(g.Time) || c.sent.After(e.Time) || of.alone() && c.order < of.holding.got {
			continue
		}
		if !l.isUnder(of, c) {
			continue
		}
		most++
		sure := c.sent.After(g.Time) || of.holding != nil && c.order > of.holding.got && (of.alone() || c.call != nil && c.call.lease == of.holding)
		if sure && (c.sent.Before(e.Time) || c.call != nil && c.call == e.call && !c.call.gaveUp() && c.call.lease != nil && c.order < c.call.returned) {
			least++
		}
	}
	l.compare(e, least, most, g.Time)
}

// alone says that the lease has its entry and its call for itself: then nothing is sent
// under it before its caller has it.
func (of *life) alone() bool {
	return of.holding != nil && !of.holding.shared && (of.acquire == nil || len(of.acquire.by.acquires) == 1)
}

// isUnder says that a command counts for the lease.
func (l *ledger) isUnder(of *life, c *command) bool {
	switch {
	case c.call == nil:
		return c.names(of.id) && c.kind != history.CommandRelease && (c.kind == history.CommandRenew || c.name == "update") || l.standing(of, c)
	case c.call.lease != nil:
		return c.call.lease.id == of.id && c.call.lease.program == of.program
	default: // a Do, or an acquire of several
		return of.acquire != nil && c.call == of.acquire.by && !l.isFor(of.acquire, c) && c.names(of.id) || l.verdictOf(of, c)
	}
}

// standing says that a find in the background asks for the lease: it is the first one
// after a renewal of several that names the lease, and has not matched all.
func (l *ledger) standing(of *life, c *command) bool {
	if c.name != "find" {
		return false
	}
	var last *command
	for _, b := range l.commands {
		switch {
		case b.order >= c.order || b.program != c.program || b.call != nil:
		case b.name == "find": // of the renewal before, or of a release
			last = nil
		case b.name == "update" && (b.failed || !b.matched) && !b.answered.After(c.sent):
			last = b
		}
	}
	return last != nil && last.names(of.id)
}

// verdictOf says that a find of a Do asks for the outcome of its release.
func (l *ledger) verdictOf(of *life, c *command) bool {
	return of.acquire != nil && c.call == of.acquire.by && c.name == "find" && of.holding != nil && c.order > of.holding.got && c.document == of.acquire.document
}

// compare compares a count with the commands that were seen, of which some may have
// come after the event at the same instant.
func (l *ledger) compare(e *heard, least, most int, from time.Time) {
	if l.unsureIn(from, e.Time) {
		l.check(CommandsRight, e.Commands >= least, "%v: %d to %d were sent", l.show(e), least, most)
		return
	}
	l.check(CommandsRight, least <= e.Commands && e.Commands <= most, "%v: %d to %d were sent", l.show(e), least, most)
}
