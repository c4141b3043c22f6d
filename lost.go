package doclock

import (
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"go.mongodb.org/mongo-driver/v2/bson"
)

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
	LossEntryRemoved    LossReason = "entry removed"    // it expired, and others came; or an operator, a user of its token or another program removed it
	LossDocumentDeleted LossReason = "document deleted" // and the lock with it
)

// Error names the document, why the lock was lost, and the first holder.
func (e *LostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %q on document %s of %s: ", ErrLost, e.Tag, bsonvalue.Readable(e.DocumentID), e.Collection)
	since := e.Since.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	switch e.Reason {
	case LossNotRenewed:
		fmt.Fprintf(&b, "its time was up at %s, and nothing renewed it: Do and KeepAlive do, until their context ends", since)
	case LossExpired:
		fmt.Fprintf(&b, "its time was up at %s, before a renewal was answered", since)
	case LossHeldAtMost:
		fmt.Fprintf(&b, "the time of its HoldAtMost was up at %s", since)
	case LossDocumentDeleted:
		fmt.Fprintf(&b, "the document is gone, as an answer showed at %s", since)
	default:
		fmt.Fprintf(&b, "its entry is gone, as an answer showed at %s", since)
	}
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
