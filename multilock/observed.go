package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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
// is none, and nothing is told.
type account struct {
	asked  *asked
	ctx    context.Context // with the values of the caller's
	sent   atomic.Int64    // commands
	waited atomic.Bool     // it was told that the acquire waits
	doubt  atomic.Bool     // and that the outcome of its ticket's removal is unknown

	mu       sync.Mutex
	document bson.RawValue // the _id that the last answer has shown, or that the filter demands
	behind   error         // the last conflict that named holders, of an acquire that waits
	over     bool          // it was told how the acquire has ended
}

// account is that of an acquire with this context, or nil.
func (l *Locker) account(ctx context.Context, a *asked) *account {
	if l.observer == nil {
		return nil
	}
	return &account{asked: a, ctx: attempt.Detached(ctx), document: documentOf(a.filter.Pin)}
}

// ends says whether this is the acquire's end, and not the second one. Nothing is told
// of the acquire after it, but by its caller.
func (of *account) ends() bool {
	of.mu.Lock()
	defer of.mu.Unlock()
	first := !of.over
	of.over = true
	return first
}

// names has the events name this document from now on.
func (of *account) names(document bson.RawValue) {
	if of == nil {
		return
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.document = document
}

// sees has the events name the document of an image, if there is one.
func (of *account) sees(img *engine.Image) {
	if img != nil {
		of.names(img.ID)
	}
}

// counted is ctx for the acquire's commands: they are counted.
func (of *account) counted(ctx context.Context) context.Context {
	if of == nil {
		return ctx
	}
	return engine.WithSending(ctx, &engine.Sending{Each: func() { of.sent.Add(1) }})
}

// errPanicked is the end of an acquire whose caller has panicked in its own decoding.
var errPanicked = fmt.Errorf("%w: the caller's own decoding has panicked", doclock.ErrReleased)

// tell tells, once, how the acquire has ended: with neither a lease nor an error, by
// a panic. ctx is what bounded it.
func (of *account) tell(ctx context.Context, held *lease.Handle, err error) {
	if of == nil || !of.ends() {
		return
	}
	if held == nil && err == nil {
		err = errPanicked
	}
	switch {
	case held != nil:
		e := of.event(observe.Granted, nil)
		e.Conflict = of.behind
		held.Announce(of.ctx, e)
	case refused(ctx, err):
		of.emit(of.event(observe.Refused, notAcquired(err)))
	default:
		of.emit(of.event(observe.GaveUp, notAcquired(err)))
	}
}

// refused tells a refusal from the end of a wait, which names a conflict too.
func refused(ctx context.Context, err error) bool {
	return !endedBy(ctx, err) && (errors.Is(err, doclock.ErrConflict) || errors.Is(err, doclock.ErrNotFound))
}

// tellUnknown tells, once, that the removal of a ticket's entry may have been
// executed, if the error that the caller gets says so. Several callers of Cancel may
// wait for one removal.
func (of *account) tellUnknown(err error) {
	if of != nil && errors.Is(err, doclock.ErrOutcomeUnknown) && !of.doubt.Swap(true) {
		of.emit(of.event(observe.OutcomeUnknown, err))
	}
}

// skips tells that a claim has passed over the document.
func (of *account) skips(err error) {
	if of != nil {
		of.emit(of.event(observe.Skipped, err))
	}
}

// waits tells, once, that the acquire waits from now on, behind the entries of the
// conflict.
func (of *account) waits(conflict error) {
	if of == nil {
		return
	}
	if c := (*doclock.ConflictError)(nil); errors.As(conflict, &c) && len(c.Holders) > 0 {
		of.mu.Lock()
		of.behind = conflict
		of.mu.Unlock()
	}
	if !of.waited.Swap(true) {
		e := of.event(observe.Waiting, nil)
		e.Conflict = conflict
		of.emit(e)
	}
}

// queued tells that the acquire waits, if its wait queue keeps it back.
func (of *account) queued(w *waitqueue.Waiter, last error) {
	if of == nil {
		return
	}
	if last != nil {
		of.waits(last)
	} else if of.asked.locker.queues.Asleep(w) {
		of.waits(of.asked.known())
	}
}

// reminds tells, once, that the acquire still waits when it has taken the Locker's
// TTL, until the wait's end calls stop.
func (of *account) reminds() (stop func()) {
	if of == nil {
		return func() {}
	}
	e, begun, l := of.event(observe.StillWaiting, nil), of.asked.begun, of.asked.locker
	timer := time.AfterFunc(l.engine.TTL-e.Waited, func() {
		of.mu.Lock()
		defer of.mu.Unlock()
		if of.over {
			return
		}
		now := l.engine.Clocks()
		e.Time, e.Waited, e.Commands, e.Conflict = now.Wall, now.Mono-begun, int(of.sent.Load()), of.behind
		of.emit(e)
	})
	return func() { timer.Stop() }
}

func (of *account) event(kind observe.Kind, err error) observe.Event {
	a, now := of.asked, of.asked.locker.engine.Clocks()
	of.mu.Lock()
	defer of.mu.Unlock()
	return observe.Event{
		Kind: kind, Time: now.Wall, DocumentID: of.document, Tag: a.request.Tag,
		Owner:  cmp.Or(a.request.Terms.Owner, a.locker.engine.Owner),
		Waited: now.Mono - a.begun, Commands: int(of.sent.Load()), Err: err,
	}
}

func (of *account) emit(e observe.Event) { of.asked.locker.observer.Emit(of.ctx, e) }

// documentOf is the _id that a pin names, or the zero value without a pin.
func documentOf(pin engine.Pin) bson.RawValue {
	if pin == nil {
		return bson.RawValue{}
	}
	return pin.ID()
}

// tellFailed tells, once for an entry, that the server has refused to remove it, or that
// it was not removed before its life was over. Without a pin the document is not known.
func (l *Locker) tellFailed(document bson.RawValue, tag string, id uuid.UUID, err error) {
	if l.observer != nil {
		l.observer.Emit(context.Background(), observe.Event{
			Kind: observe.CleanUpFailed, Time: l.engine.Clocks().Wall, DocumentID: document, Tag: tag, LeaseID: id, Err: err,
		})
	}
}
