package doclock

import (
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// ConflictError says who is in the way. It is an [ErrConflict]. That of a
// [Lease.Downgrade] names the lease's own entry if the time of [HoldAtLeast] is in
// the way, and has no Holders if all have left since the refusal. If the context of an
// acquire holds the entries that are in the way, the acquire is refused at once, and
// the Holders are these entries alone: it would wait for ever.
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
	Waiting   bool          // not held yet, but ahead in the document's queue
	Remaining time.Duration // until it expires, unless it is renewed

	// InContext: a lease of the call's own context holds it, as that of a Do or a
	// KeepAlive.
	InContext bool

	// InProcess: a lease of the Locker that was asked holds it, so somebody in this
	// process does. Other Lockers of the process are not looked at.
	InProcess bool

	// AtLeast is for how long it keeps others out even if its holder releases
	// the lock ([HoldAtLeast]), or 0. A remainder, whose holder has released the
	// lock already, expires at the end of that time, so it has an equal Remaining.
	AtLeast time.Duration
}

// Error names the holders, the first few of many.
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
		case h.Waiting:
			state = "waiting"
		case h.InContext:
			state = "held by this context"
		case h.InProcess:
			state = "held in this process"
		}
		fmt.Fprintf(&b, "%q of %s (%s, %v left", h.Tag, h.Owner, state, h.Remaining.Round(time.Millisecond))
		if h.AtLeast > 0 {
			fmt.Fprintf(&b, ", for at least %v", h.AtLeast.Round(time.Millisecond))
		}
		b.WriteString(")")
	}
	return b.String()
}

// Is makes every conflict an [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }
