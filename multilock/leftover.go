package multilock

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/google/uuid"
)

// leftover is the id of an acquire that ended without a lease, and the entries
// that the document may have by it.
type leftover struct {
	id      uuid.UUID
	seen    bool      // an answer showed the entry
	entries int       // how often the document may have it yet: once if seen, and for each attempt of unknown outcome
	until   time.Time // when an entry that is not extended has expired
	answers []func(error)

	last bool          // Close has asked for a command that is not sent yet
	owed bool          // Close waits for an answer to the next command
	due  time.Time     // of the next command
	rest time.Duration // after that
}

// count records whether a command has found the entry. If it was seen and is not
// there any more, another client has removed it.
func (l *leftover) count(found bool) {
	if found || l.seen {
		l.entries--
	}
	l.seen = false
}

// discard leaves the entry with the id to the clean-up, if one was seen or may
// be entered yet. Without a pin the server has to look through the
// collection.
func (a *acquisition) discard(pin engine.Pin, id uuid.UUID, late unsure, seen bool, answer func(error)) {
	l := leftover{id: id, seen: seen, entries: late.n}
	last := late.last
	if seen {
		l.entries++
		last = time.Now()
	}
	l.until = last.Add(a.locker.cleanup.life(a.request.Request))
	if answer != nil {
		l.answers = append(l.answers, answer)
	}
	if l.entries > 0 {
		a.locker.cleanup.add(pin, a.request.Tag, l)
	} else if answer != nil {
		answer(nil)
	}
}

// leave is the end of an acquire whose caller has the answer. Without a lease of
// its own id, no entry may stay in the document by that id.
func (a *acquisition) leave(held *lease.Handle) {
	if !a.gone && (held == nil || held.ID() != a.request.ID) {
		a.discard(a.filter.Pin, a.request.ID, a.unsure, false, nil)
	}
}

// end is the end of an acquire whose caller left before it.
func (a *acquisition) end(done func()) {
	done()
	if a.ended != nil {
		a.ended()
	}
}
