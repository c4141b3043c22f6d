package doclock

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The errors to test for with [errors.Is]. Errors of the driver stay reachable
// through [errors.As].
var (
	// ErrNotAcquired: the caller doesn't hold the lock. Every error of an acquire is
	// one, beside its cause. If an error of Do is one, its function was never
	// called; an error of an acquire inside the function doesn't count.
	ErrNotAcquired = errors.New("doclock: not acquired")

	// ErrNotFound: no document matches the filter, or, with [SkipLocked], none that
	// matches is free.
	ErrNotFound = errors.New("doclock: no such document")

	// ErrConflict: others hold the lock, or came first. The error is a
	// [*ConflictError], which names them. After a refused [Lease.Convert] the
	// lease goes on as it was.
	ErrConflict = errors.New("doclock: conflict")

	// ErrLost: the lease ended before it was released, and others may have been granted
	// the lock since. It is a [*LostError], which says which lock and why. From Do, DoAll, Lead
	// and Release it speaks of that call's own lock.
	ErrLost = errors.New("doclock: lock lost")

	// ErrReleased: the lease was released, detached or converted, or the ticket was
	// cancelled. Nothing was sent.
	ErrReleased = errors.New("doclock: lock released")

	// ErrClosed: the Locker was closed.
	ErrClosed = errors.New("doclock: locker closed")

	// ErrInvalidArgument: what the caller gave can't be used. The error says what was
	// wrong and what would be right. Nothing was sent.
	ErrInvalidArgument = errors.New("doclock: invalid argument")

	// ErrInTransaction: the context carries a running transaction. Inside it
	// the lock would stay hidden until the commit; outside, the command could
	// wait for the transaction's own writes.
	ErrInTransaction = errors.New("doclock: context carries a running transaction")

	// ErrForeignLock: the lock field holds something that is not a lock of
	// doclock's, or a lock that a newer version has written, as the text says then.
	// Nothing was changed. [Field] chooses another field.
	ErrForeignLock = errors.New("doclock: foreign lock field")

	// ErrOutcomeUnknown, of a write, a delete, a detach or a conversion: the server
	// may have executed it, or may do so yet. Of a release, and so of Do, DoAll and
	// Lead: nobody knows whether others were granted. It wraps the driver's error. No
	// acquire returns it: what it may have been granted is released in the background.
	ErrOutcomeUnknown = errors.New("doclock: outcome unknown")

	// ErrUnsupportedServer: the server can't run the protocol. See [CheckServer].
	ErrUnsupportedServer = errors.New("doclock: unsupported server")
)

// ConflictError names the entries in the way. It is an [ErrConflict]. An acquire that
// would wait for a lease of its own context, or for a waiter that waits for one, is
// refused at once, and the Holders are these entries alone. There are none if all have
// left since the refusal.
type ConflictError struct {
	Collection string        // as in "shop.orders"
	DocumentID bson.RawValue // the document's _id
	Tag        string        // the tag that was wanted
	Holders    []Holder      // the entries in the way, waiting ones included

	// RetryAfter is the time until enough of the entries in the way expire, if none
	// is renewed. Most are released or renewed before. It is a second for what has
	// expired and is still in the way.
	RetryAfter time.Duration
}

// Holder is one entry in the way of an acquire.
type Holder struct {
	Tag     string
	ID      uuid.UUID
	Fence   int64 // its fencing token, or 0 if it waits
	Owner   string
	Since   time.Time // arrival, on the server's clock
	Waiting bool      // not held yet, but ahead in the document's queue

	// Remaining is the time until it expires, unless it is renewed. It is 0 for one that
	// has expired while transactions of its holder may be open ([Lease.WithTransaction]).
	Remaining time.Duration

	// InContext: a lease of the call's own context holds it, or, if it is Waiting, it
	// waits for such a lease. It is a context of a Do, or one of KeepAlive.
	InContext bool

	InProcess bool // a lease of the same Locker holds it

	// UnknownTag: the Locker's rules don't have its tag, so it keeps all others out. The
	// program that holds it locks by other rules.
	UnknownTag bool

	// AtLeast is for how long it keeps others out even if its holder releases the
	// lock ([HoldAtLeast]), or 0. It is equal to Remaining for a remainder, whose
	// holder has released the lock already.
	AtLeast time.Duration
}

// Error names the first three holders, and counts the others.
func (e *ConflictError) Error() string {
	const shown = 3
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %q on document %s of %s: kept back by ", ErrConflict, e.Tag, bsonvalue.Readable(e.DocumentID), e.Collection)
	if len(e.Holders) == 0 {
		b.WriteString("others, who have left since")
	}
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
		left := fmt.Sprintf("%s, %v left", state, h.Remaining.Round(time.Millisecond))
		if h.Remaining <= 0 {
			left = "expired, but a transaction of its holder may be open"
		}
		fmt.Fprintf(&b, "%q of %q (%s", h.Tag, h.Owner, left)
		if h.AtLeast > 0 {
			fmt.Fprintf(&b, ", for at least %v", h.AtLeast.Round(time.Millisecond))
		}
		if h.UnknownTag {
			b.WriteString("; these rules don't have its tag")
		}
		b.WriteString(")")
	}
	return b.String()
}

// Is makes every conflict an [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// LostError says which lock was lost, and why. Every [ErrLost] of a lease, a ticket or
// a token is one, or wraps one; a nil one among several names no document.
type LostError struct {
	Collection string        // as in "shop.orders"
	DocumentID bson.RawValue // the document's _id
	Tag        string
	Owner      string // of the lost entry; "" for a token, whose entry was not seen
	Reason     LossReason

	// Since is when the time of the lease was up, or else when the answer came that
	// showed the loss, on this machine's clock.
	Since time.Time

	// Holders are the entries that have the lock instead, if the answer or its proof
	// shows them. A loss by time is found without the server, and shows none.
	Holders []Holder
}

// LossReason is why a lock was lost. Its text is stable: it can be a metric's label.
type LossReason string

// The reasons. If the time of a lease was up, that stays the reason, whatever a later
// command finds. A server without members, as a standalone one, often can't tell a
// deleted document: the reason is LossEntryRemoved then.
const (
	LossNotRenewed      LossReason = "not renewed"      // its time was up, and nothing was renewing it: no Do or KeepAlive whose context goes on
	LossExpired         LossReason = "expired"          // its time was up before a renewal was answered
	LossHeldAtMost      LossReason = "held at most"     // the time of [HoldAtMost] was up
	LossEntryRemoved    LossReason = "entry removed"    // it expired, and others came; or an operator, a take-over, a user of its token or another program removed it
	LossDocumentDeleted LossReason = "document deleted" // and the lock with it
)

var lossTexts = map[LossReason]string{
	LossNotRenewed:      "its time was up at %s, and nothing renewed it: Do and KeepAlive do, until their context ends",
	LossExpired:         "its time was up at %s, before a renewal was answered",
	LossHeldAtMost:      "the time of its HoldAtMost was up at %s",
	LossEntryRemoved:    "its entry is gone, as an answer showed at %s",
	LossDocumentDeleted: "the document is gone, as an answer showed at %s",
}

// Error names the document, why the lock was lost, and the first holder.
func (e *LostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %q on document %s of %s: ", ErrLost, e.Tag, bsonvalue.Readable(e.DocumentID), e.Collection)
	fmt.Fprintf(&b, cmp.Or(lossTexts[e.Reason], lossTexts[LossEntryRemoved]), e.Since.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	if len(e.Holders) > 0 {
		fmt.Fprintf(&b, "; now held by %q of %q", e.Holders[0].Tag, e.Holders[0].Owner)
	}
	if more := len(e.Holders) - 1; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// Is makes every loss an [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }
