package multilock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/waitqueue"
)

// try sends one acquire that doesn't wait.
func (a *asked) try(ctx context.Context) (*lease.Handle, error) {
	if err := a.nested(); err != nil {
		return nil, err
	}
	if a.skip {
		return a.claim(ctx, true)
	}
	s := newAttempts(a, nil).once(ctx)
	s.cleanUp(nil)
	return s.held, a.failed(ctx, s.err, nil)
}

// acquire waits for the lock, for as long as MaxWait says. Close waits for its
// end, and so returns after the waiters' entries were removed, and documents decoded.
func (a *asked) acquire(ctx context.Context) (held *lease.Handle, err error) {
	a.locker.ops.Enter()
	defer a.locker.ops.Leave()
	defer func() { a.observed.emitEnd(ctx, held, err) }()
	ctx = a.observed.counted(ctx)
	if a.maxWait != nil {
		most := *a.maxWait
		if most == 0 {
			most = a.bounds.Timeout
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, most, &attempt.Over{After: most})
		defer cancel()
		if a.tries() {
			a.bounds.RetryLimit = most / 2 // so that it mostly ends with its reason, before ctx does
			return a.try(ctx)
		}
	}
	if err := a.nested(); err != nil {
		return nil, err
	}
	if a.skip {
		return a.claim(ctx, false)
	}
	if a.document == "" {
		return a.find(ctx)
	}
	return newAttempts(a, nil).wait(ctx)
}

// find asks the server first if only the server knows which document the filter
// finds. It asks for the lock and not for a place: a place in the document would
// block the earlier waiters of this process.
func (a *asked) find(ctx context.Context) (*lease.Handle, error) {
	s := newAttempts(a, nil).arrive(ctx, true)
	if s.held != nil || !errors.Is(s.err, doclock.ErrConflict) || isNested(s.err) {
		s.held, s.err = s.deliver(s.image, s.held, s.err)
		s.cleanUp(nil)
		return s.held, a.failed(ctx, s.err, nil)
	}
	s.asked = a.of(a.filter.At(a.locker.engine.Pin(s.image)))
	return s.wait(ctx)
}

// wait waits in the document's wait queue until the lock is granted, ctx ends,
// the locker is closed, or something other than a conflict comes back. The error of
// attempts that were answered before is the last conflict so far. At the end the entry
// is removed from the document unless it is the lease's.
func (s attempts) wait(ctx context.Context) (*lease.Handle, error) {
	a, queues := s.asked, s.locker.queues
	w := queues.Enter(s.where(), s.queuedBy(s.id, a.late), waitqueue.Known{Image: s.image, Sent: s.begun})
	s.waiter = w
	last := s.err
	a.observed.emitQueued(w, last)
	defer a.observed.remind()()
	defer func() {
		if s.gone { // the waiter stays in the queue, busy, so that the next one does not ask beside the command
			return
		}
		s.cleanUp(nil)
		if s.entry != nil {
			s.entry.withdraw(nil, func(error) {})
		}
		a.locker.leave(w)
	}()
	for {
		step, err := queues.Await(ctx, w)
		switch {
		case err != nil:
			s.err = err
		case step.Kind == waitqueue.Joined:
			s.held = a.locker.leases.Take(step.Entry)
			return s.held, nil
		default:
			s = s.take(ctx, step)
			if !s.gone {
				queues.Settle(w, waitqueue.Result{ID: s.id, Held: idOf(s.held), Place: s.entry.queued(), Image: s.image, Document: s.where()})
			}
		}
		if s.held != nil { // and not the first in the queue any more, so that a slow decode holds nobody up
			s.held, s.err = s.deliver(s.image, s.held, nil)
			return s.held, notAcquired(s.err)
		}
		if s.err != nil && (!errors.Is(s.err, doclock.ErrConflict) || isNested(s.err)) {
			if s.outage(s.err) {
				queues.Fail(w, s.err)
			}
			return nil, s.failed(ctx, s.err, last)
		}
		last = s.err
		a.observed.emitWaiting(last)
	}
}

// take takes a step: it reads a handoff's answer, or asks the server. An entry that was
// pruned is made anew, under a new id and at the end of the document's queue.
func (s attempts) take(ctx context.Context, step waitqueue.Step) attempts {
	s.image, s.err = nil, nil
	handed := step.Kind == waitqueue.Answer
	switch {
	case handed && step.Answer.Image != nil:
		s = s.answered(step.Answer)
	case s.entry != nil:
		s = s.keep(ctx)
	case handed: // the handoff may have made its entry
		s.unsure.add(handoffUnknown())
		s = s.ask(ctx)
	default:
		s = s.ask(ctx)
	}
	for !s.gone && s.pruned {
		s = newAttempts(s.asked, s.waiter).ask(ctx)
	}
	return s
}

// ask asks for a lease of an entry of this process, or a place in the
// document.
func (s attempts) ask(ctx context.Context) attempts {
	if s.unsure.n == 0 { // else it may have an entry of its own by now
		if s = s.join(ctx); s.held != nil || s.err != nil {
			return s
		}
	}
	return s.arrive(ctx, false)
}

// keep asks whether the entry is granted, and extends it if it waits.
func (s attempts) keep(ctx context.Context) attempts {
	next := s
	if ctx.Err() != nil {
		next.err = attempt.Ended(ctx)
		return next
	}
	got, gone, err := run(ctx, s.asked, s.waiter, nil, func() reply { return s.entry.confirm(ctx) }, s.entry.abandoned)
	if err == nil {
		err = got.err
	}
	if err != nil {
		next.err, next.gone = err, gone
		return next
	}
	return next.answered(got.Answer)
}

// late releases what a waiter that has given up has got.
func (a *asked) late(w *waitqueue.Waiter, step waitqueue.Step) {
	got, r, left := step.Answer, a.by(w.ID), a.locker.cleanup
	switch {
	case step.Kind == waitqueue.Joined:
		left.release(context.Background(), r, a.locker.leases.Take(step.Entry), nil)
	case got.Image == nil:
		left.discard(a.filter.Pin, r, handoffUnknown(), false, nil)
	case got.Outcome == engine.Waiting:
		left.discard(a.filter.Pin, r, unsure{}, true, nil)
	case got.Outcome == engine.Granted:
		left.release(context.Background(), r, a.locker.leases.New(a.locker.engine.Grant(got.Image, r), got.Sent, false), nil)
	}
}

// handoffUnknown is a handoff of unknown outcome: one more attempt to make the
// successor's entry.
func handoffUnknown() unsure { return unsure{n: 1, last: time.Now()} }

// Wait waits until the lock is granted or ctx ends, and confirms meanwhile. A
// release by the same Locker wakes it. If ctx ends, the entry stays: call Wait again
// in time (see Ticket), or cancel it. The error is ctx's, joined with the last
// conflict, or one of Confirm's. A Wait that would wait for a lease of ctx is refused, as
// an acquire is; the entry stays. Every error is a [doclock.ErrNotAcquired].
func (t *Ticket) Wait(ctx context.Context) (doclock.Lease, error) {
	if engine.InTransaction(ctx) {
		return nil, notAcquired(errInTransaction)
	}
	held, err := t.wait(ctx)
	return lease.Give(held, engine.Raise(t.entry.failed(ctx, err, t.conflict())))
}

// wait waits in the document's wait queue, as an Acquire with a waiting entry.
func (t *Ticket) wait(ctx context.Context) (held *lease.Handle, err error) {
	if ctx.Err() != nil {
		return nil, attempt.Ended(ctx)
	}
	select {
	case t.waits <- struct{}{}:
		defer func() { <-t.waits }()
	case <-ctx.Done():
		return nil, attempt.Ended(ctx)
	}
	queues, inside := t.entry.locker.queues, *t.entry.asked
	inside.holding = slices.Concat(inside.holding, lease.HeldBy(ctx))
	known, answers := t.known()
	if t.decided() {
		return t.handOver(ctx)
	}
	gone := false
	w := queues.Enter(t.document(), t.request(&inside), known)
	defer func() {
		if !gone { // else the waiter leaves when its command ends
			t.entry.locker.leave(w)
		}
	}()
	for {
		step, err := queues.Await(ctx, w)
		if err != nil {
			return nil, err
		}
		held, gone, err = t.use(ctx, step, w)
		before := answers
		known, answers = t.known()
		if gone || answers == before { // a Confirm or a Cancel has decided, or there is no answer
			if t.entry.outage(err) {
				queues.Fail(w, err)
			}
			return held, err
		}
		queues.Settle(w, waitqueue.Result{ID: t.ID(), Held: idOf(held), Place: known.Place, Image: known.Image, Sent: known.Sent, Document: t.document()})
		if !errors.Is(err, doclock.ErrConflict) {
			return held, err
		}
		own, _ := known.Image.Lock.Find(t.Tag(), t.ID())
		if refused := inside.conflict(known.Image, &own); isNested(refused) {
			return nil, refused
		}
	}
}

func (t *Ticket) document() string { return waitqueue.Key(t.entry.grant.Pin) }

// request is the ticket as a waiter. A lock that is handed over to it is the
// ticket's, whether or not a caller waits.
func (t *Ticket) request(inside *asked) waitqueue.Request {
	return inside.queuedBy(t.ID(), func(_ *waitqueue.Waiter, step waitqueue.Step) {
		t.entry.locker.ops.Go(func() { _ = t.receive(step.Answer) })
	})
}

// known is the last answer, as the wait queue takes it, and its number.
func (t *Ticket) known() (waitqueue.Known, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return waitqueue.Known{Place: t.entry.queued(), Image: t.seen.Image, Sent: t.seen.Sent.Mono, Answered: t.answered}, t.answers
}

// use takes a handoff's answer, or asks the server. A handoff of unknown outcome
// was for the ticket's own entry, so a confirm finds the outcome.
func (t *Ticket) use(ctx context.Context, step waitqueue.Step, w *waitqueue.Waiter) (held *lease.Handle, gone bool, _ error) {
	if step.Answer.Image == nil {
		return t.confirm(ctx, w)
	}
	refused, gaveUp := attempt.Run(ctx, &t.entry.locker.ops, func() error { return t.receive(step.Answer) }, func(error) {})
	if err := cmp.Or(gaveUp, refused); err != nil {
		return nil, false, err
	}
	held, err := t.handOver(ctx)
	return held, false, err
}

// receive applies a handoff's answer, once no command is under way. An answer
// without an image has no effect.
func (t *Ticket) receive(got engine.Answer) error {
	t.commands <- struct{}{}
	defer func() { <-t.commands }()
	if got.Image == nil {
		return nil
	}
	return t.judge(got)
}
