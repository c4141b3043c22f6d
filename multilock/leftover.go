package multilock

import (
	"time"

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
