package simulation

import (
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
)

// This file checks what is left in the documents.

// entries looks for an explanation of each entry that has not expired when all callers
// have returned and the Lockers are closed.
func (l *ledger) entries() {
	why := map[string]string{}
	for _, p := range l.programs {
		for _, e := range p.events {
			id := text(e.LeaseID)
			switch {
			case e.Kind == doclock.EventCleanUpFailed:
				why[id] = "its clean-up has failed"
				l.check(CleanUpsTold, l.failedFor(id) || l.unsureIn(e.Time.Add(-2*longestTTL), e.Time), "%v, and no command has failed", l.show(e))
			case e.Kind == doclock.EventOutcomeUnknown:
				why[id] = "an outcome is unknown"
			case e.Err != nil && (e.Kind == doclock.EventReleased || e.Kind == doclock.EventDetached):
				why[id] = "its release has failed"
			case e.Kind == doclock.EventLost:
				why[id] = "its lease was lost"
			}
		}
	}
	l.forbidden(why)
	for _, e := range l.leftover {
		if e.Expired() {
			continue
		}
		id := text(e.ID)
		of := why[id]
		switch {
		case of != "":
		case e.HasToken:
			of = "it has a token"
		case !e.Until.IsZero() && e.State == admin.Remainder:
			of = "it is a remainder"
		case l.tickets[id]:
			of = "its ticket was left alone"
		case l.late[id]:
			of = "its request may have come late"
		}
		l.check(EntriesKnown, of != "", "%v: nobody knows why", e)
		l.counts.Seen(fmt.Sprintf("an entry stays: %s", of), 1)
	}
	l.counts.Checked(EntriesKnown, 1)
}

// failedFor says that a command in the background that names the id has failed.
func (l *ledger) failedFor(id string) bool {
	for _, c := range l.commands {
		if c.call == nil && c.failed && c.names(id) {
			return true
		}
	}
	return false
}

// forbidden checks that a removal in the background that the server has refused is told
// as failed, for each entry that no caller has got.
func (l *ledger) forbidden(why map[string]string) {
	last := map[string]*command{}
	for _, c := range l.commands {
		for _, id := range c.removes {
			if c.call == nil {
				last[key(c.program, id)] = c
			}
		}
	}
	for _, c := range l.commands {
		for _, id := range c.removes {
			if c.forbidden && last[key(c.program, id)] == c && l.lives[key(c.program, id)] == nil {
				l.check(CleanUpsTold, why[id] != "", "the removal of %s was refused at %s, and not told", id, at(c.answered))
			}
		}
	}
}
