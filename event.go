package doclock

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Event says what happened to an acquire or to a lease. [OnEvent] delivers it.
//
// An acquire is a call of TryAcquire, Acquire, Do, Enqueue or Resume of a Locker, or
// one want of AcquireAll or DoAll. Each ends with exactly one event: [EventGranted]
// if the caller got a lease, [EventRefused], or [EventGaveUp]. A ticket's acquire
// ends when the ticket is granted, lost or cancelled; a ticket that is left alone
// has no such event. There is none of a call that was refused before it began
// ([ErrInvalidArgument], [ErrInTransaction], after Close, after the end of its
// context), of a want after one that could not be had, of a Touch, and of a
// downgrade that was refused.
//
// Each EventGranted is followed by exactly one end of that lease, with the same
// LeaseID: [EventReleased], [EventHandedOver], [EventDetached] or [EventLost]. A
// downgrade is an EventReleased, and an EventGranted with another LeaseID. The
// leases of one entry ([ShareInProcess]) have the same LeaseID, and each has its own
// two events. A lease that was granted to a caller who had given up has neither.
//
// EventLost comes when the lease's time is up, also of a lease that is never
// released, or when a command finds that its entry is gone. The release of that
// lease is no other event. If that release, or a write, returns nil after the time
// was up, nobody was let in after all: the server's answer counts. An EventReleased
// or EventDetached with an Err is an end, too, whatever a later call of the lease
// finds.
type Event struct {
	Kind EventKind
	Time time.Time // when it happened, on this machine's clock

	Collection string        // "database.collection"
	DocumentID bson.RawValue // the document's _id; zero while it is not known which document the filter finds
	Tag        string
	Owner      string // of the entry; empty for a clean-up

	LeaseID uuid.UUID // of a lease's events, and of a clean-up the entry's; [uuid.Nil] before the grant
	Fence   int64     // of a lease's events

	Waited time.Duration // of an acquire: since its call began; of one of several wants: since its own acquire began; of a downgrade: since it was sent
	Held   time.Duration // of a lease: since its grant

	// Commands is how many were sent for this acquire, or for this lease since its
	// grant. It counts doclock's repeats, and not the driver's. A renewal of many
	// leases by one command counts for each of them, and so does a command for
	// leases of one entry. A handoff or a downgrade counts for the lease that ends
	// by it.
	Commands int

	Holders []Holder // the entries in the way, as the last image showed them; of a grant, those that it waited for last
	Err     error    // the error that the caller gets, or the reason of a failure in the background; of a loss, a [*LostError]

	Dropped int // events that were dropped since the last one, because the observer was too slow
}

// EventKind is what happened. Its text is stable: it can be a metric's label.
type EventKind string

// The kinds of events. EventStillWaiting names the holders in the way, as far as this
// process knows them. Tickets and claims have none: a claim may wait long for work.
//
// EventOutcomeUnknown comes once for each command whose caller gets
// [ErrOutcomeUnknown]. Its context ended during the command, or no attempt was
// answered, or a release was not executed before the lease's time was up: nobody knows
// whether others were let in. If the command ends the lease, the event of that end
// follows when the command has ended, unless it came before.
const (
	EventWaiting        EventKind = "waiting"         // an acquire was kept back, and waits from now on
	EventStillWaiting   EventKind = "still waiting"   // an Acquire, a Do or a want has waited for the Locker's TTL, and goes on; once
	EventSkipped        EventKind = "skipped"         // a claim ([SkipLocked]) passed over a document that can't take the lock; Err says why
	EventGranted        EventKind = "granted"         // a lease began: by an acquire, a resume or a downgrade
	EventRefused        EventKind = "refused"         // an acquire ended with a conflict or without a document
	EventGaveUp         EventKind = "gave up"         // an acquire ended for another reason: its context, MaxWait, Close, an error
	EventRenewed        EventKind = "renewed"         // a renewal was executed; once for all leases of one entry
	EventRenewalFailed  EventKind = "renewal failed"  // a renewal's command failed; it is repeated while the lease is valid
	EventLost           EventKind = "lost"            // a lease ended before its release: its time ran out, or its entry is gone
	EventReleased       EventKind = "released"        // a lease ended by its holder; Err is set if that failed, or its outcome is unknown
	EventHandedOver     EventKind = "handed over"     // a lease ended by its release to a waiter of the same Locker
	EventDetached       EventKind = "detached"        // a lease ended here, and its entry is left to the users of its token; Err as for "released"
	EventOutcomeUnknown EventKind = "outcome unknown" // a command may have been executed; see the comment on all kinds
	EventCleanUpFailed  EventKind = "clean-up failed" // the server refuses to remove an entry that nobody holds, or none could be reached before it expired
)

// LogValue implements [slog.LogValuer] with the kind, the time and the fields that
// are not empty.
func (e Event) LogValue() slog.Value {
	kind, at := slog.String("kind", string(e.Kind)), slog.Time("time", e.Time)
	return slog.GroupValue(append([]slog.Attr{kind, at}, e.attributes()...)...)
}

// attributes are the fields that are not empty, without the kind and the time.
func (e Event) attributes() (of []slog.Attr) {
	add := func(present bool, a slog.Attr) {
		if present {
			of = append(of, a)
		}
	}
	add(e.Collection != "", slog.String("collection", e.Collection))
	if !e.DocumentID.IsZero() {
		of = append(of, slog.String("document", bsonvalue.Readable(e.DocumentID)))
	}
	add(e.Tag != "", slog.String("tag", e.Tag))
	add(e.Owner != "", slog.String("owner", oneline.Text(e.Owner)))
	if e.LeaseID != uuid.Nil {
		of = append(of, slog.String("lease", e.LeaseID.String()))
	}
	add(e.Fence != 0, slog.Int64("fence", e.Fence))
	add(e.Waited != 0, slog.Duration("waited", e.Waited))
	add(e.Held != 0, slog.Duration("held", e.Held))
	add(e.Commands != 0, slog.Int("commands", e.Commands))
	if len(e.Holders) > 0 {
		first := e.Holders[0]
		of = append(of, slog.Int("holders", len(e.Holders)), slog.String("behind", fmt.Sprintf("%q of %q", first.Tag, first.Owner)))
	}
	if e.Err != nil {
		of = append(of, slog.String("error", oneline.Text(e.Err.Error())))
	}
	if lost := (*LostError)(nil); errors.As(e.Err, &lost) {
		of = append(of, slog.String("reason", string(lost.Reason)))
	}
	add(e.Dropped != 0, slog.Int("dropped", e.Dropped))
	return of
}
