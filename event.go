package doclock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Event says what happened to an acquire or to a lease. [OnEvent] delivers it.
//
// An acquire is a call of TryAcquire, Acquire, Do, Enqueue or Resume of a Locker, one
// want of AcquireAll or DoAll, or one lease of an AcquireBatch. Each ends with exactly one
// event: [EventGranted] if the caller got a lease, or [EventNotGranted]. A ticket's acquire
// ends when the ticket is granted, lost or cancelled; a ticket that is left alone has no
// such event.
// There is none of a call that was refused before it began ([ErrInvalidArgument],
// [ErrInTransaction], after Close, after the end of its context), of a want after one
// that could not be had, of a Touch, of a conversion that was refused, and of a
// transaction whose function panics.
//
// Each EventGranted is followed by exactly one end of that lease, with the same
// LeaseID: [EventReleased] or [EventLost]. A conversion is a release, and a grant with
// another LeaseID. The leases of one entry ([ShareInProcess]) have the same LeaseID, and
// each has its own two events. A lease that was granted to a caller who had given up has
// neither. After a loss the release of that lease is no other event; if it, or a write,
// returns nil after the lease's time was up, nobody was granted after all: the server's
// answer counts.
type Event struct {
	Kind EventKind
	How  EventHow  // the kind came about; empty if it has no more to say
	Time time.Time // when it happened, on this machine's clock

	Collection string        // "database.collection"
	DocumentID bson.RawValue // the document's _id; zero while it is not known which document the filter finds
	Tag        string
	Owner      string // of the entry; empty for a clean-up

	LeaseID uuid.UUID // of a lease's events, and of a clean-up the entry's; [uuid.Nil] before the grant
	Fence   int64     // of a lease's events

	Waited time.Duration // of an acquire: since its call, or its own of several, began; of a conversion: since it was sent; of a transaction: since its call
	Held   time.Duration // of a lease: since its grant

	// Commands is how many were sent for this acquire, or for this lease since its grant.
	// One for several leases counts for each of them (but those of an AcquireBatch once, with
	// its first), and a handoff or a conversion for the lease that ends by it.
	Commands int

	Holders []Holder // the entries in the way, as the last image showed them; of a grant, those that it waited for last
	Err     error    // the error that the caller gets, or the reason of a failure in the background; of a loss, a [*LostError]

	Dropped int // events that were dropped since the last one, because the observer was too slow
}

// EventKind is what happened. Its text is stable: it can be a metric's label.
type EventKind string

// The kinds of events.
const (
	EventWaiting        EventKind = "waiting"         // an acquire was kept back, and waits from now on
	EventSkipped        EventKind = "skipped"         // a claim ([SkipLocked]) passed over a document that can't take the lock; Err says why
	EventGranted        EventKind = "granted"         // a lease began: by an acquire, a resume or a conversion
	EventNotGranted     EventKind = "not granted"     // an acquire ended without a lease: see HowRefused and HowGaveUp
	EventRenewed        EventKind = "renewed"         // a renewal was executed; once for all leases of one entry
	EventRenewalFailed  EventKind = "renewal failed"  // a renewal's command failed; it is repeated while the lease is valid
	EventLost           EventKind = "lost"            // a lease ended before its release: its time ran out, or a command found that its entry is gone
	EventReleased       EventKind = "released"        // a lease ended by its holder; Err is set if that failed, or its outcome is unknown
	EventOutcomeUnknown EventKind = "outcome unknown" // once for each command whose caller gets ErrOutcomeUnknown; before the end of a lease, unless that came first
	EventTransaction    EventKind = "transaction"     // a WithTransaction ended, once for each lease; Err is what it returns
	EventCleanUpFailed  EventKind = "clean-up failed" // the server refuses to remove an entry that nobody holds, or none could be reached before it expired
)

// EventHow is how a kind of events came about. Its text is stable, too.
type EventHow string

// How an acquire waits, or ended without a lease; how a lease was released; and how a transaction ended.
const (
	HowStill      EventHow = "still waiting" // an Acquire, a Do or a want, but no claim, has waited for the Locker's TTL, and goes on; once
	HowRefused    EventHow = "refused"       // by a conflict, or without a document
	HowGaveUp     EventHow = "gave up"       // for another reason: its context, MaxWait, Close, an error
	HowHandedOver EventHow = "handed over"   // to a waiter of the same Locker
	HowDetached   EventHow = "detached"      // the entry is left to the users of its token
	HowConverted  EventHow = "converted"     // another lease has taken its place
	HowCommitted  EventHow = "committed"     // what fn has written is there
	HowRolledBack EventHow = "rolled back"   // nothing of it is, or will be
	HowUndecided  EventHow = "undecided"     // it may be committed yet: Err is ErrOutcomeUnknown
)

// LogValue implements [slog.LogValuer] with the kind, the time and the fields that
// are not empty.
func (e Event) LogValue() slog.Value {
	kind, at := slog.String("kind", string(e.Kind)), slog.Time("time", e.Time)
	return slog.GroupValue(append([]slog.Attr{kind, at}, e.attributes()...)...)
}

// attributes are the fields that are not empty, without the kind and the time.
func (e Event) attributes() (all []slog.Attr) {
	add := func(present bool, a slog.Attr) {
		if present {
			all = append(all, a)
		}
	}
	add(e.How != "", slog.String("how", string(e.How)))
	add(e.Collection != "", slog.String("collection", e.Collection))
	if !e.DocumentID.IsZero() {
		all = append(all, slog.String("document", bsonvalue.Readable(e.DocumentID)))
	}
	add(e.Tag != "", slog.String("tag", e.Tag))
	add(e.Owner != "", slog.String("owner", oneline.Text(e.Owner)))
	if e.LeaseID != uuid.Nil {
		all = append(all, slog.String("lease", e.LeaseID.String()))
	}
	add(e.Fence != 0, slog.Int64("fence", e.Fence))
	add(e.Waited != 0, slog.Duration("waited", e.Waited))
	add(e.Held != 0, slog.Duration("held", e.Held))
	add(e.Commands != 0, slog.Int("commands", e.Commands))
	if len(e.Holders) > 0 {
		first := e.Holders[0]
		all = append(all, slog.Int("holders", len(e.Holders)), slog.String("behind", fmt.Sprintf("%q of %q", first.Tag, first.Owner)))
	}
	if e.Err != nil {
		all = append(all, slog.String("error", oneline.Text(e.Err.Error())))
	}
	if lost := (*LostError)(nil); errors.As(e.Err, &lost) {
		all = append(all, slog.String("reason", string(lost.Reason)))
	}
	add(e.Dropped != 0, slog.Int("dropped", e.Dropped))
	return all
}

// OnEvent makes the Locker call f for each [Event], in the order of the options if there
// are several. It does so in a goroutine of its own, for one event at a time, in the
// order in which they happened; nothing has to be closed. A slow f delays nobody: if more
// than 1,024 events wait for it, one is dropped, and counted in the next one's Dropped.
// Renewals are dropped first, losses and unknown outcomes last. A panic ends that call
// only, and is logged, as net/http does.
//
// The context has the values of the acquire's context, such as a trace, without its end
// and without the driver's session; the release of a lease has those of its own call, and
// a clean-up has none. Without an observer no event is made, and nothing is counted.
func OnEvent(f func(context.Context, Event)) Option {
	return engine.Option(func(c *engine.Config) error {
		if f == nil {
			return fmt.Errorf("%w: OnEvent got a nil function; leave the option out", ErrInvalidArgument)
		}
		c.Observers = append(c.Observers, f)
		return nil
	})
}

// LogTo logs each [Event] of the Locker, as [OnEvent] delivers it. The record has
// the event's time and the attributes of [Event.LogValue]. The levels are
//
//   - Warn: [EventLost], [EventOutcomeUnknown], [EventRenewalFailed],
//     [EventCleanUpFailed], [EventSkipped], and an [EventReleased] with an Err;
//   - Info: [HowGaveUp], [HowStill];
//   - Debug: all others.
func LogTo(logger *slog.Logger) Option {
	if logger == nil {
		return engine.Option(func(*engine.Config) error {
			return fmt.Errorf("%w: LogTo got a nil logger; give one, as slog.Default()", ErrInvalidArgument)
		})
	}
	return OnEvent(func(ctx context.Context, e Event) {
		level := e.level()
		if !logger.Enabled(ctx, level) {
			return
		}
		record := slog.NewRecord(e.Time, level, "doclock: "+string(e.Kind), 0)
		record.AddAttrs(e.attributes()...)
		_ = logger.Handler().Handle(ctx, record) // as a Logger does
	})
}

func (e Event) level() slog.Level {
	switch e.Kind {
	case EventLost, EventOutcomeUnknown, EventRenewalFailed, EventCleanUpFailed, EventSkipped:
		return slog.LevelWarn
	case EventReleased:
		if e.Err != nil {
			return slog.LevelWarn
		}
	}
	if e.How == HowGaveUp || e.How == HowStill {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
