package doclock

import (
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// ConflictError names the entries in the way. It is an [ErrConflict]. If the acquire
// would wait for a lease of its own context, or for a waiter that waits for one, it is
// refused at once, and the Holders are these entries alone. A
// [Lease.Downgrade] before the end of [HoldAtLeast] names the lease's own entry. It
// names nobody if all have left since the refusal.
type ConflictError struct {
	Tag        string        // the tag that was wanted
	DocumentID bson.RawValue // the document's _id
	Holders    []Holder      // the entries in the way, waiting ones included

	// RetryAfter is the time until enough of the entries in the way expire, if none
	// is renewed. Most are released or renewed before.
	RetryAfter time.Duration
}

// Holder is one entry in the way of an acquire.
type Holder struct {
	Tag       string
	ID        uuid.UUID
	Owner     string
	Since     time.Time     // arrival, on the server's clock
	Waiting   bool          // not held yet, but ahead in the document's queue
	Remaining time.Duration // until it expires, unless it is renewed

	// InContext: a lease of the call's own context holds it: that of a Do around the
	// call, or one whose KeepAlive made the context. An entry that is Waiting waits for
	// such a lease, directly or not.
	InContext bool

	// InProcess: a lease of the same Locker holds it. Other Lockers of this process
	// are not looked at.
	InProcess bool

	// AtLeast is for how long it keeps others out even if its holder releases the
	// lock ([HoldAtLeast]), or 0. It is equal to Remaining for a remainder, whose
	// holder has released the lock already.
	AtLeast time.Duration
}

// Error names the first three holders, and counts the others.
func (e *ConflictError) Error() string {
	const shown = 3
	if len(e.Holders) == 0 {
		return fmt.Sprintf("doclock: conflict: %q on document %s was kept back by others, who have left since", e.Tag, bsonvalue.Readable(e.DocumentID))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "doclock: conflict: %q on document %s is kept back by ", e.Tag, bsonvalue.Readable(e.DocumentID))
	for i, h := range e.Holders {
		if i == shown {
			fmt.Fprintf(&b, " and %d more", len(e.Holders)-shown)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		state := "held"
		switch {
		case h.Waiting && h.InContext:
			state = "waiting for this context"
		case h.Waiting:
			state = "waiting"
		case h.InContext:
			state = "held by this context"
		case h.InProcess:
			state = "held in this process"
		}
		fmt.Fprintf(&b, "%q of %q (%s, %v left", h.Tag, h.Owner, state, h.Remaining.Round(time.Millisecond))
		if h.AtLeast > 0 {
			fmt.Fprintf(&b, ", for at least %v", h.AtLeast.Round(time.Millisecond))
		}
		b.WriteString(")")
	}
	return b.String()
}

// Is makes every conflict an [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }
