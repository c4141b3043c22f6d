package doclock

import (
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Event says what happened to an acquire or to a lease. [OnEvent] delivers it.
//
// Each [EventGranted] is followed by exactly one end of that lease, with the same
// LeaseID: [EventReleased], [EventHandedOver], [EventDetached] or [EventLost].
type Event struct {
	Kind EventKind
	Time time.Time // when it happened, on this machine's clock

	Collection string        // "database.collection"
	DocumentID bson.RawValue // the document's _id; zero while no document was found
	Tag        string
	Owner      string

	LeaseID uuid.UUID // of a lease's events; [uuid.Nil] before the grant
	Fence   int64     // of a lease's events

	Waited   time.Duration // of an acquire: since its call began
	Held     time.Duration // of a lease: since its grant
	Commands int           // sent for this acquire, or for this lease since its grant

	Holders []Holder // the entries in the way, as the last image showed them
	Err     error    // the error that the caller gets, or the reason of a failure in the background
	Dropped int      // events that the observer was too slow for, since the last delivered one
}

// EventKind is what happened. Its text is stable: it may be a metric's label.
type EventKind string

// The kinds of events.
const (
	EventWaiting        EventKind = "waiting"         // an acquire was kept back, and waits from now on
	EventGranted        EventKind = "granted"         // a lease began: by an acquire, a resume or a downgrade
	EventRefused        EventKind = "refused"         // an acquire ended with a conflict or without a document
	EventGaveUp         EventKind = "gave up"         // an acquire ended for another reason: its context, MaxWait, Close, an error
	EventRenewed        EventKind = "renewed"         // a renewal was executed
	EventRenewalFailed  EventKind = "renewal failed"  // a renewal's command failed; it is repeated while the lease is valid
	EventLost           EventKind = "lost"            // a lease ended before its release: its time ran out, or its entry is gone
	EventReleased       EventKind = "released"        // a lease ended by its holder; Err is set if that failed or its outcome is unknown
	EventHandedOver     EventKind = "handed over"     // a lease ended by its release to a waiter of the same Locker
	EventDetached       EventKind = "detached"        // a lease ended here, and lives on for whoever shows its token
	EventOutcomeUnknown EventKind = "outcome unknown" // a write or a release may have been executed; followed by the end if it was a release
	EventCleanUpFailed  EventKind = "clean-up failed" // an entry that nobody uses could not be removed; it expires by itself
)
