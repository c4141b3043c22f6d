package multilock

import (
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
)

// try sends one acquire that doesn't wait.
func (a *acquisition) try(ctx context.Context) (*lease.Handle, error) {
	if a.skip {
		return a.claim(ctx, true)
	}
	held, err := a.once(ctx)
	a.leave(held)
	return held, a.failed(ctx, err, nil)
}

// once asks for the lock, or joins an entry of this process.
func (a *acquisition) once(ctx context.Context) (*lease.Handle, error) {
	a.request.Try = true
	held, err := a.join(ctx)
	if held == nil && err == nil {
		held, _, err = a.arrive(ctx)
	}
	if a.request.Shared {
		a.locker.queues.Tried(a.where(), a.request, idOf(held), a.seen)
	}
	return held, err
}

// arrive sends one acquire. With neither a lease nor an error, or with a
// conflict, the entry waits at the place.
func (a *acquisition) arrive(ctx context.Context) (*lease.Handle, *place, error) {
	got, err := a.send(ctx)
	if err != nil {
		return nil, nil, err
	}
	return a.take(a.arrived(got.Image), got)
}

// take makes a place of an answer. If it is granted, the caller gets the document.
// A repeated acquire is not decided anew, and may wait although no entry blocks
// it.
func (a *acquisition) take(p *place, got engine.Answer) (*lease.Handle, *place, error) {
	held, err := p.judge(got)
	if held != nil {
		if err := a.decode(got.Image, held); err != nil {
			return nil, nil, err
		}
		return held, nil, nil
	}
	if !errors.Is(err, doclock.ErrConflict) {
		err = nil
	}
	return nil, p, err
}

// acquire waits for the lock, for as long as MaxWait says. Close waits for its
// end, and so returns after the waiters' entries were removed.
func (a *acquisition) acquire(ctx context.Context) (held *lease.Handle, err error) {
	defer func() { a.tell(ctx, held, err) }()
	ctx = a.counted(ctx)
	if a.maxWait != nil && *a.maxWait == 0 {
		return a.try(ctx)
	}
	if a.maxWait != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, *a.maxWait, &attempt.Over{After: *a.maxWait})
		defer cancel()
	}
	a.locker.ops.Enter()
	defer a.locker.ops.Leave()
	if a.skip {
		return a.claim(ctx, false)
	}
	if a.document == "" {
		return a.find(ctx)
	}
	return a.wait(ctx, a.document, nil)
}

// find asks the server first if only the server knows which document the filter
// finds. It asks for the lock and not for a place: a place in the document would
// block the earlier waiters of this process.
func (a *acquisition) find(ctx context.Context) (*lease.Handle, error) {
	a.request.Try = true
	held, _, err := a.arrive(ctx)
	if !errors.Is(err, doclock.ErrConflict) {
		a.leave(held)
		return held, a.failed(ctx, err, nil)
	}
	a.request.Try = false
	return a.wait(ctx, a.where(), err)
}

// wait waits in the document's wait queue until the lock is granted, ctx ends,
// the locker is closed, or something other than a conflict comes back. last is
// the last conflict so far.
func (a *acquisition) wait(ctx context.Context, document string, last error) (held *lease.Handle, err error) {
	queues := a.locker.queues
	a.request.Late = a.late
	w := queues.Enter(document, a.request, waitqueue.Known{Image: a.seen, Sent: a.request.Begun})
	a.ended = func() { queues.Leave(w) }
	a.queued(w, last)
	var p *place
	defer func() { a.finish(w, held, p) }()
	for {
		turn, err := queues.Await(ctx, w)
		if turn.Kind == waitqueue.Joined {
			return turn.Lease, nil
		}
		if err == nil {
			was := p
			p = nil // where the caller's own decoding panics, the entry is released
			held, p, err = a.use(ctx, turn, was)
			if !a.gone {
				queues.Settle(w, a.result(held, p))
			}
		}
		if held != nil {
			return held, nil
		}
		if err != nil && !errors.Is(err, doclock.ErrConflict) {
			if engine.AsFailure(err).NotSent {
				queues.Fail(w, err)
			}
			return nil, a.failed(ctx, err, last)
		}
		last = err
		a.waits(last)
	}
}

// finish removes the waiter from its queue, and its entry from the document
// unless it is the lease's. While a command of its own is under way, the waiter
// stays in the queue, busy, so that the next one does not ask beside it.
func (a *acquisition) finish(w *waitqueue.Waiter, held *lease.Handle, p *place) {
	if a.gone {
		return
	}
	a.leave(held)
	if p != nil {
		p.withdraw(nil, func(error) {})
	}
	a.locker.queues.Leave(w)
}

// result is what the wait queue is told of a turn.
func (a *acquisition) result(held *lease.Handle, p *place) waitqueue.Result {
	r := waitqueue.Result{ID: a.request.ID, Held: idOf(held), Image: a.seen}
	if p != nil {
		r.Place = p.queued()
	}
	if a.seen != nil {
		r.Document = a.where()
	}
	return r
}

// use takes a turn. An entry that was pruned is entered anew, under a new id and
// at the end of the document's queue.
func (a *acquisition) use(ctx context.Context, turn waitqueue.Turn, p *place) (*lease.Handle, *place, error) {
	a.seen = nil
	held, p, err := a.read(ctx, turn, p)
	for !a.gone && errors.Is(err, doclock.ErrLost) {
		a.renamed()
		held, p, err = a.enter(ctx)
	}
	return held, p, err
}

// read takes a handoff's answer, or asks the server.
func (a *acquisition) read(ctx context.Context, turn waitqueue.Turn, p *place) (*lease.Handle, *place, error) {
	handed := turn.Kind == waitqueue.Answer
	switch {
	case handed && turn.Answer.Image != nil:
		return a.handed(turn.Answer, p)
	case p != nil:
		return a.keep(ctx, p)
	case handed: // the handoff may have entered it
		a.unsure.add(handoffUnknown())
	}
	return a.enter(ctx)
}

// enter asks for a lease of an entry of this process, or a place in the
// document.
func (a *acquisition) enter(ctx context.Context) (*lease.Handle, *place, error) {
	a.seen = nil
	if a.unsure.n == 0 { // else it may have an entry of its own by now
		if held, err := a.join(ctx); held != nil || err != nil {
			return held, nil, err
		}
	}
	return a.arrive(ctx)
}

// keep asks whether it is the place's turn, and extends the waiting entry.
func (a *acquisition) keep(ctx context.Context, p *place) (*lease.Handle, *place, error) {
	if ctx.Err() != nil {
		return nil, p, attempt.Ended(ctx)
	}
	got, gaveUp, err := run(ctx, a, nil, func() reply { return a.confirm(ctx, p.grant.Pin) }, p.abandoned)
	if gaveUp != nil {
		a.gone = true
		return nil, p, gaveUp
	}
	if err == nil {
		err = got.err
	}
	if err != nil {
		return nil, p, err
	}
	return a.confirmed(p, got.Answer)
}

// handed does with a handoff's answer what arrive and keep do with theirs.
func (a *acquisition) handed(got engine.Answer, p *place) (*lease.Handle, *place, error) {
	a.seen = got.Image
	switch {
	case p != nil:
		return a.confirmed(p, got)
	case got.Outcome == engine.Granted, got.Outcome == engine.Waiting: // which a late acquire has entered
		return a.take(a.arrived(got.Image), got)
	default:
		return nil, nil, a.conflict(got.Image, nil)
	}
}

// confirmed applies an answer to the place that the waiter had.
func (a *acquisition) confirmed(p *place, got engine.Answer) (*lease.Handle, *place, error) {
	a.seen = got.Image
	held, err := p.judge(got)
	switch {
	case held != nil:
		if err := a.decode(got.Image, held); err != nil {
			return nil, nil, err
		}
		return held, nil, nil
	case errors.Is(err, doclock.ErrLost):
		return nil, nil, err
	default:
		return nil, p, err
	}
}

// renamed starts over under a new id: an id serves one entry only.
func (a *acquisition) renamed() {
	a.request.ID, a.unsure = uuid.New(), unsure{}
}

// late releases what was handed over to a waiter that has given up.
func (a *acquisition) late(turn waitqueue.Turn) {
	got := turn.Answer
	switch {
	case turn.Kind == waitqueue.Joined:
		a.locker.release(turn.Lease, nil)
	case got.Image == nil:
		a.discard(a.filter.Pin, a.request.ID, handoffUnknown(), false, nil)
	case got.Outcome == engine.Waiting:
		a.discard(a.filter.Pin, a.request.ID, unsure{}, true, nil)
	case got.Outcome == engine.Granted:
		a.locker.release(a.locker.leases.New(a.locker.engine.Grant(got.Image, a.request.Request), got.Sent, false), nil)
	}
}

// handoffUnknown is a handoff of unknown outcome: one more attempt to enter its
// successor.
func handoffUnknown() unsure { return unsure{n: 1, last: time.Now()} }

func idOf(held *lease.Handle) uuid.UUID {
	if held == nil {
		return uuid.Nil
	}
	return held.ID()
}
