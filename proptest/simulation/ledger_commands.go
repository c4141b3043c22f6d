package simulation

import (
	"slices"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/history"
)

// sentFor compares an acquire's count of commands with what the driver has sent. Its
// caller's calls have sent them, up to the grant, or to the return of the last call. A
// command that waits for a server counts, and is not seen; some may have come after the
// event at the same instant. Package lease tests the counts of leases.
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
	unsure := l.unsureIn(a.by.begun, e.Time)
	l.check(CommandsRight, least <= e.Commands && (e.Commands <= most || unsure), "%v: %d to %d were sent", l.show(e), least, most)
}

// isFor says that a command was sent for the acquire, or to give its lease back.
func (l *ledger) isFor(a *acquire, c *command) bool {
	if !slices.Contains(a.calls, c.call) || len(a.by.acquires) > 1 && c.document != a.document {
		return false
	}
	switch c.kind {
	case history.CommandRelease, history.CommandWriteAndRelease, history.CommandDetach: // of the lease
		return false
	default:
		return true
	}
}
