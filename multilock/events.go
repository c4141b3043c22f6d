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
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// observed is an acquire with an observer. Without an observer there is none, and
// no event.
type observed struct {
	call    *call
	share   *share          // whose users emit the events of the wait, or nil
	ctx     context.Context // with the values of the caller's
	sent    atomic.Int64    // commands
	waited  atomic.Bool     // Waiting was emitted
	unknown atomic.Bool     // OutcomeUnknown was, of its ticket's removal

	mu       sync.Mutex
	document bson.RawValue // the _id that the last answer has shown, or that the filter demands
	behind   error         // the last conflict that named holders, of an acquire that waits
	over     bool          // the event of its end was emitted
}

// observed is that of an acquire with this context, or nil.
func (l *Locker) observed(ctx context.Context, a *call) *observed {
	if l.observer == nil {
		return nil
	}
	return &observed{call: a, ctx: attempt.Detached(ctx), document: documentOf(a.filter.Pin)}
}

// delegate is that of an acquire whose users emit its events, each his own.
func (o *observed) delegate(s *share) *observed {
	if o == nil {
		return nil
	}
	return &observed{call: o.call, share: s, ctx: o.ctx}
}

// nameDocument has the events name this document from now on.
func (o *observed) nameDocument(document bson.RawValue) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.document = document
}

// lookAt has the events name the document of an image, if there is one.
func (o *observed) lookAt(img *engine.Image) {
	if img != nil {
		o.nameDocument(img.ID)
	}
}

// count is ctx for the acquire's commands: they are counted.
func (o *observed) count(ctx context.Context) context.Context {
	if o == nil {
		return ctx
	}
	return engine.WithSending(ctx, &engine.Sending{Each: func() { o.sent.Add(1) }})
}

// errPanicked is the end of an acquire whose caller has panicked in its own decoding.
var errPanicked = fmt.Errorf("%w: the caller's own decoding has panicked", doclock.ErrReleased)

// emitEnd emits, once, how the acquire has ended: with neither a lease nor an error, by
// a panic. ctx is what bounded it. The lease's later events are the caller's.
func (o *observed) emitEnd(ctx context.Context, held *lease.Lease, err error) (events *lease.Announcement) {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	over, behind := o.over, o.behind
	o.over = true // only its caller emits an event after it
	o.mu.Unlock()
	if over {
		return nil
	}
	if held == nil && err == nil {
		err = errPanicked
	}
	if held != nil {
		e := o.event(doclock.EventGranted, nil)
		e.Holders = lease.HoldersIn(behind)
		return held.Announce(o.ctx, e)
	}
	e := o.event(doclock.EventNotGranted, notAcquired(err))
	if e.How = doclock.HowGaveUp; refused(ctx, err) {
		e.How = doclock.HowRefused
	}
	o.emit(e)
	return nil
}

// emitBatch emits how the acquire of several leases has ended. The first one has its commands.
func (o *observed) emitBatch(ctx context.Context, all Leases, err error) {
	if o == nil {
		return
	}
	if len(all) == 0 {
		o.emitEnd(ctx, nil, err)
		return
	}
	o.emitEnd(ctx, all[0].(*lease.Lease), nil)
	e := o.event(doclock.EventGranted, nil)
	e.Commands = 0
	for _, l := range all[1:] {
		l.(*lease.Lease).Announce(o.ctx, e)
	}
}

// refused is true of a refusal, and not of the end of a wait, which names a conflict
// too.
func refused(ctx context.Context, err error) bool {
	return !endedBy(ctx, err) && (errors.Is(err, doclock.ErrConflict) || errors.Is(err, doclock.ErrNotFound))
}

// emitUnknown emits, once, that the removal of a ticket's entry may have been
// executed, if the error that the caller gets says so. Several callers of Cancel may
// wait for one removal.
func (o *observed) emitUnknown(err error) {
	if o != nil && errors.Is(err, doclock.ErrOutcomeUnknown) && !o.unknown.Swap(true) {
		o.emit(o.event(doclock.EventOutcomeUnknown, err))
	}
}

// emitSkipped emits that a claim has passed over the document.
func (o *observed) emitSkipped(err error) {
	if o != nil {
		o.emitBeforeEnd(o.event(doclock.EventSkipped, err))
	}
}

// emitWaiting emits, once, that the acquire waits from now on, behind the entries of
// the conflict.
func (o *observed) emitWaiting(conflict error) {
	if o == nil {
		return
	}
	if c := (*doclock.ConflictError)(nil); errors.As(conflict, &c) && len(c.Holders) > 0 {
		o.mu.Lock()
		o.behind = conflict
		o.mu.Unlock()
	}
	switch first := !o.waited.Swap(true); {
	case first && o.share != nil:
		close(o.share.waits)
	case first:
		e := o.event(doclock.EventWaiting, nil)
		e.Holders = lease.HoldersIn(conflict)
		o.emitBeforeEnd(e)
	}
}

// emitQueued emits that the acquire waits, if it has to wait in its wait queue.
func (o *observed) emitQueued(w *waitqueue.Waiter) {
	if o == nil {
		return
	}
	if refused, _ := o.call.progress.report(); refused != nil {
		o.emitWaiting(refused)
	} else if o.call.locker.queues.Asleep(w) {
		o.emitWaiting(o.call.knownConflict())
	}
}

// remind emits, once, that the acquire still waits when it has taken the Locker's
// TTL, unless stop is called before.
func (o *observed) remind() (stop func()) {
	if o == nil || o.share != nil {
		return func() {}
	}
	e, begun, l := o.event(doclock.EventWaiting, nil), o.call.begun, o.call.locker
	e.How = doclock.HowStill
	timer := time.AfterFunc(l.engine.TTL-e.Waited, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.over {
			return
		}
		now := l.engine.Clocks()
		e.Time, e.Waited, e.Commands, e.Holders = now.Wall, now.Mono-begun, int(o.sent.Load()), lease.HoldersIn(o.behind)
		o.emit(e)
	})
	return func() { timer.Stop() }
}

func (o *observed) event(kind doclock.EventKind, err error) doclock.Event {
	c, now := o.call, o.call.locker.engine.Clocks()
	o.mu.Lock()
	defer o.mu.Unlock()
	return doclock.Event{
		Kind: kind, Time: now.Wall, DocumentID: o.document, Tag: c.request.Tag,
		Owner:  cmp.Or(c.request.Terms.Owner, c.locker.engine.Owner),
		Waited: now.Mono - c.begun, Commands: int(o.sent.Load()), Err: err,
	}
}

// emitBeforeEnd emits an event of the acquire's goroutine, unless its caller has left.
func (o *observed) emitBeforeEnd(e doclock.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		o.emit(e)
	}
}

func (o *observed) emit(e doclock.Event) { o.call.locker.observer.Emit(o.ctx, e) }

// documentOf is the _id that a pin names, or the zero value without a pin.
func documentOf(pin engine.Pin) bson.RawValue {
	if pin == nil {
		return bson.RawValue{}
	}
	return pin.ID()
}

// emitFailed emits, once for an entry, that the server has refused to remove it, or that
// it was not removed before its life was over. Without a pin the document is not known.
func (l *Locker) emitFailed(document bson.RawValue, tag string, id uuid.UUID, err error) {
	if l.observer != nil {
		l.observer.Emit(context.Background(), doclock.Event{
			Kind: doclock.EventCleanUpFailed, Time: l.engine.Clocks().Wall, DocumentID: document, Tag: tag, LeaseID: id, Err: err,
		})
	}
}
