package doclock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/lease"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The errors to test for with [errors.Is]. Errors of the driver stay reachable
// through [errors.As].
var (
	// ErrNotAcquired: the caller doesn't hold the lock. Every error of an
	// acquire is one, beside its cause; of an error of Do it says that the
	// function was never called, unless it comes from an acquire inside it.
	ErrNotAcquired = errors.New("doclock: not acquired")

	// ErrNotFound: no document matches the filter.
	ErrNotFound = errors.New("doclock: no such document")

	// ErrConflict: others hold the lock, or came first. The error is a
	// [*ConflictError], which names them.
	ErrConflict = errors.New("doclock: conflict")

	// ErrLost: the lease ended before it was released. Its time ran out, or
	// its entry is gone from the document. Others may have been let in since.
	ErrLost = lease.ErrLost

	// ErrReleased: the lease was released, or its ticket cancelled.
	ErrReleased = lease.ErrReleased

	// ErrClosed: the Locker was closed.
	ErrClosed = errors.New("doclock: locker closed")

	// ErrInvalidArgument: an option, a filter, a tag, an update or a collection
	// can't be used. The error says what was wrong and what would be right.
	// Nothing was sent.
	ErrInvalidArgument = lease.ErrInvalidArgument

	// ErrInTransaction: the context carries a running transaction. Inside it
	// the lock would stay hidden until the commit; outside, the command could
	// wait for the transaction's own writes.
	ErrInTransaction = lease.ErrInTransaction

	// ErrForeignLock: the lock field holds something that is not a lock of
	// doclock's. It was left as it is. See [Field] for another field.
	ErrForeignLock = errors.New("doclock: foreign lock field")

	// ErrOutcomeUnknown: a write, a delete or a release may have been
	// executed, or may be yet. It wraps what the driver said. No acquire
	// returns it: an acquire without a lease means that the caller holds
	// nothing, and what it may have been granted is released in the
	// background.
	ErrOutcomeUnknown = lease.ErrOutcomeUnknown

	// ErrUnsupportedServer: the server can't run the protocol. See
	// [CheckServer].
	ErrUnsupportedServer = errors.New("doclock: unsupported server")
)

// ConflictError says who is in the way. It is an [ErrConflict].
type ConflictError struct {
	Tag        string        // the tag that was wanted
	DocumentID bson.RawValue // the document's _id
	Holders    []Holder      // the entries in the way, waiting ones included

	// RetryAfter is how long it takes at most until enough of the entries in
	// the way have expired. Most are released or renewed before.
	RetryAfter time.Duration
}

// Holder is one entry in the way.
type Holder struct {
	Tag       string
	ID        uuid.UUID
	Owner     string
	Since     time.Time     // arrival, on the server's clock
	Waiting   bool          // not held yet, but first in line
	Remaining time.Duration // until it expires, unless it is renewed
}

// Error names the holders, the first few of many.
func (e *ConflictError) Error() string {
	const shown = 3
	var b strings.Builder
	fmt.Fprintf(&b, "doclock: conflict: %q on document %s is kept back by ", e.Tag, readable(e.DocumentID))
	for i, h := range e.Holders {
		if i == shown {
			fmt.Fprintf(&b, " and %d more", len(e.Holders)-shown)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		state := "held"
		if h.Waiting {
			state = "waiting"
		}
		fmt.Fprintf(&b, "%q of %s (%s, %v left)", h.Tag, h.Owner, state, h.Remaining.Round(time.Millisecond))
	}
	return b.String()
}

// Is makes every conflict an [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }
