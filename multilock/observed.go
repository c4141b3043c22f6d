package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/observe"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// This file tells the Locker's observer how acquires go. What becomes of a lease
// is told by package lease.

// account is what the observer must know of an acquire. Without an observer there
// is none.
type account struct {
	ctx    context.Context // with the values of the caller's
	sent   atomic.Int64    // commands
	behind error           // the last conflict that named holders, of an acquire that waits; of its goroutine
	waited atomic.Bool     // it was told that the acquire waits
	over   atomic.Bool     // and how it has ended
	doubt  atomic.Bool     // and that the outcome of its ticket's removal is unknown
}

// account is that of an acquire with this context, or nil.
func (l *Locker) account(ctx context.Context) *account {
	if l.observer == nil {
		return nil
	}
	return &account{ctx: attempt.Detached(ctx)}
}

// counted is ctx for the acquire's commands: they are counted.
func (a *acquisition) counted(ctx context.Context) context.Context {
	of := a.account
	if of == nil {
		return ctx
	}
	return engine.WithSending(ctx, &engine.Sending{Each: func() { of.sent.Add(1) }})
}

// errPanicked is the end of an acquire whose caller has panicked in its own decoding.
var errPanicked = fmt.Errorf("%w: the caller's own decoding has panicked", doclock.ErrReleased)

// tell tells, once, how the acquire has ended: with neither a lease nor an error, by
// a panic. ctx is what bounded it.
func (a *acquisition) tell(ctx context.Context, held *lease.Handle, err error) {
	of := a.account
	if of == nil || of.over.Swap(true) {
		return
	}
	if held == nil && err == nil {
		err = errPanicked
	}
	switch {
	case held != nil:
		e := a.event(observe.Granted, nil)
		e.Conflict = of.behind
		held.Announce(of.ctx, e)
	case refused(ctx, err):
		a.locker.observer.Emit(of.ctx, a.event(observe.Refused, notAcquired(err)))
	default:
		a.locker.observer.Emit(of.ctx, a.event(observe.GaveUp, notAcquired(err)))
	}
}

// refused tells a refusal from the end of a wait, which names a conflict too.
func refused(ctx context.Context, err error) bool {
	return !endedBy(ctx, err) && (errors.Is(err, doclock.ErrConflict) || errors.Is(err, doclock.ErrNotFound))
}

// tellUnknown tells, once, that the removal of a ticket's entry may have been
// executed, if the error that the caller gets says so. Several callers of Cancel may
// wait for one removal.
func (a *acquisition) tellUnknown(err error) {
	if of := a.account; of != nil && errors.Is(err, doclock.ErrOutcomeUnknown) && !of.doubt.Swap(true) {
		a.locker.observer.Emit(of.ctx, a.event(observe.OutcomeUnknown, err))
	}
}

// waits tells, once, that the acquire waits from now on, behind the entries of the
// conflict.
func (a *acquisition) waits(conflict error) {
	of := a.account
	if of == nil {
		return
	}
	if c := (*doclock.ConflictError)(nil); errors.As(conflict, &c) && len(c.Holders) > 0 {
		of.behind = conflict
	}
	if !of.waited.Swap(true) {
		e := a.event(observe.Waiting, nil)
		e.Conflict = conflict
		a.locker.observer.Emit(of.ctx, e)
	}
}

// queued tells that the acquire waits, if its wait queue keeps it back.
func (a *acquisition) queued(w *waitqueue.Waiter, last error) {
	if a.account == nil {
		return
	}
	if last != nil {
		a.waits(last)
	} else if a.locker.queues.Asleep(w) {
		a.waits(a.known())
	}
}

func (a *acquisition) event(kind observe.Kind, err error) observe.Event {
	now := a.locker.engine.Clocks()
	return observe.Event{
		Kind: kind, Time: now.Wall, DocumentID: a.documentID(), Tag: a.request.Tag,
		Owner:  cmp.Or(a.request.Terms.Owner, a.locker.engine.Owner),
		Waited: now.Mono - a.request.Begun, Commands: int(a.account.sent.Load()), Err: err,
	}
}

// documentID is the _id of the document that the acquire was answered with last, or
// that its filter demands.
func (a *acquisition) documentID() bson.RawValue {
	if a.seen != nil {
		return a.seen.ID
	}
	return documentOf(a.filter.Pin)
}

// documentOf is the _id that a pin names, or the zero value without a pin.
func documentOf(pin engine.Pin) bson.RawValue {
	if pin == nil {
		return bson.RawValue{}
	}
	return pin.ID()
}

// tellFailed tells that a clean-up has failed for good.
func (l *Locker) tellFailed(document bson.RawValue, tag string, id uuid.UUID, err error) {
	if l.observer != nil {
		l.observer.Emit(context.Background(), observe.Event{
			Kind: observe.CleanUpFailed, Time: l.engine.Clocks().Wall, DocumentID: document, Tag: tag, LeaseID: id, Err: err,
		})
	}
}
