package multilock

import (
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
)

// waiter is one Acquire in a line. It runs in its caller's goroutine.
type waiter struct {
	a      *acquisition
	queue  *queue
	line   *line
	ticket *Ticket // its entry, where it waits in the document too
	order  uint64  // of arrival
	nudge  chan struct{}

	// Under the queue's lock:
	state  state
	place  *list.Element // in the line, or nil
	asked  time.Time     // when it was last answered, or joined
	sent   time.Time     // when it was last let ask, or promised the lock
	news   uint64        // the picture's then, or at the answer
	rest   time.Duration // for how long after it was refused it doesn't ask without news
	answer answer        // of a handoff
}

// state is what a waiter is doing.
type state uint8

const (
	asleep   state = iota
	asking         // it asks the server, or was told to
	promised       // somebody is handing the lock over to it
	answered       // the handoff's answer has come, or a lease to share
	taking         // it is looking at that
	left           // it has the lock, or gave up
)

// busy waiters may have the lock in a moment.
func (s state) busy() bool { return s != asleep && s != left }

func (w *waiter) wake() {
	select {
	case w.nudge <- struct{}{}:
	default: // it has one coming
	}
}

// remaining is the time left of a pause, and short enough to keep a place in the
// document.
func (w *waiter) remaining(d time.Duration) time.Duration {
	if w.ticket != nil {
		d = w.ticket.inTime(d)
	}
	return max(0, d-time.Since(w.asked))
}

// waited is how a wait ended.
type waited struct {
	lease *lease.Handle
	err   error
}

// wait waits in the document's line until the lock is granted, ctx ends, the
// locker is closed, or something other than a conflict comes back. Close waits
// for it to end, so that it returns when what the waiters had in their
// documents is removed.
func (a *acquisition) wait(ctx context.Context) (*lease.Handle, error) {
	w, _ := attempt.Run(context.Background(), &a.locker.ops, func() waited { return a.line(ctx) }, nil)
	return w.lease, w.err
}

// line joins the line of the document. Where only the server knows which
// document a filter finds, it is asked first, for the lock and not for a place:
// one in the document would keep back those who stand in line before it.
func (a *acquisition) line(ctx context.Context) waited {
	if a.document != "" {
		return a.queued(ctx, a.document, nil)
	}
	a.request.Try = true
	t, err := a.arrive(ctx)
	if !errors.Is(err, doclock.ErrConflict) {
		a.leave(t.granted())
		return waited{t.granted(), err}
	}
	a.request.Try = false
	return a.queued(ctx, key(a.locker.engine.Pin(a.seen)), err)
}

func (a *acquisition) queued(ctx context.Context, document string, last error) (got waited) {
	w := a.locker.queue.join(a, document, nil, a.seen)
	a.ended = func() { a.locker.queue.leave(w) }
	defer func() { w.end(got.lease) }()
	for {
		handed, err := w.turn(ctx)
		if err == nil {
			var held *lease.Handle
			if held, err = w.ask(ctx, handed); held != nil {
				return waited{lease: held}
			}
		}
		if err != nil && !errors.Is(err, doclock.ErrConflict) {
			if engine.AsFailure(err).NotSent {
				a.locker.queue.fail(w, err)
			}
			return waited{err: cutShort(ctx, err, last)}
		}
		last = err
	}
}

// end takes the waiter out of the line, and its entry out of the document
// unless it is the lease's. While a command of its own is out, the waiter stays
// in the line, busy, so that the next one does not ask beside it.
func (w *waiter) end(held *lease.Handle) {
	if w.a.gone {
		return
	}
	w.a.leave(held)
	if held == nil && w.ticket != nil {
		w.ticket.cancel(func(error) {})
	}
	w.queue.leave(w)
}

// turn waits until the waiter may ask the server, or is handed the lock.
func (w *waiter) turn(ctx context.Context) (handed *answer, err error) {
	for {
		may, handed, pause := w.queue.turn(w)
		if may {
			return handed, nil
		}
		if err := w.sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// sleep ends with a nudge, or after the pause; and with an error when ctx
// does, or the locker is closed.
func (w *waiter) sleep(ctx context.Context, pause time.Duration) error {
	var over <-chan time.Time
	if pause >= 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-w.nudge:
		return nil
	case <-over:
		w.queue.poll(w)
		return nil
	case <-ctx.Done():
		return attempt.Ended(ctx)
	case <-w.a.locker.ops.Closing():
		return doclock.ErrClosed
	}
}

// ask asks the server, unless a handoff has brought the answer. Without a lease
// and without an error the waiter has a place in the document.
func (w *waiter) ask(ctx context.Context, handed *answer) (held *lease.Handle, err error) {
	a := w.a
	if handed != nil && (handed.lease != nil || handed.err != nil) {
		return handed.lease, handed.err
	}
	if handed != nil && handed.Image != nil {
		held, err = w.take(*handed)
	} else {
		if handed != nil && w.ticket == nil { // but the handoff may have entered it
			a.unsure.add(handoffUnknown())
		}
		held, err = w.send(ctx)
	}
	if a.gone {
		return nil, err
	}
	if errors.Is(err, doclock.ErrLost) { // pruned: at the end of the document's queue again
		w.ticket = nil
		a.renamed()
		return w.ask(ctx, nil)
	}
	w.queue.settle(w, a.seen, held)
	return held, err
}

// send asks for a place in the document, or whether the one it has is first.
func (w *waiter) send(ctx context.Context) (*lease.Handle, error) {
	w.a.seen = nil
	if w.ticket != nil {
		held, gone, err := w.ticket.ask(ctx, w.abandoned)
		w.a.gone, w.a.seen = gone, w.ticket.last()
		return held, err
	}
	if w.a.unsure.n == 0 { // else it may have an entry of its own by now
		if held, err := w.a.join(ctx); held != nil || err != nil {
			return held, err
		}
	}
	t, err := w.a.arrive(ctx)
	if err != nil {
		return nil, err
	}
	return w.enter(t)
}

// take makes of a handoff's answer what arrive and Confirm make of theirs.
func (w *waiter) take(got answer) (*lease.Handle, error) {
	w.a.seen = got.Image
	switch {
	case w.ticket != nil:
		if err := w.ticket.judge(got); err != nil {
			return nil, err
		}
		return w.ticket.handOver()
	case got.Outcome == engine.Granted, got.Outcome == engine.Waiting: // which a late acquire has entered
		t, err := newTicket(w.a, got)
		if err != nil {
			return nil, err
		}
		return w.enter(t)
	default:
		return nil, w.a.conflict(got.Image, nil)
	}
}

// arrivedAs says that the entry in the image is the waiter's own. One with
// another seq was brought back by a late duplicate, and is given back.
func (w *waiter) arrivedAs(img *engine.Image) bool {
	if w.ticket == nil {
		return true
	}
	own, _ := img.Lock.Find(w.ticket.grant.Tag, w.ticket.grant.ID)
	return own.Seq == w.ticket.grant.Seq
}

// enter keeps the ticket of an entry that has to wait.
func (w *waiter) enter(t *Ticket) (*lease.Handle, error) {
	if held := t.granted(); held != nil {
		return held, nil
	}
	w.ticket = t
	return nil, t.conflict()
}

// abandoned takes the waiter's entry out of the document, granted or not, once
// the command has ended that its caller didn't wait for.
func (w *waiter) abandoned(done func()) {
	w.ticket.cancel(func(error) { w.a.end(done) })
}

// forsake gives back what was handed over to a waiter that has given up.
func (w *waiter) forsake(got answer) {
	a := w.a
	switch {
	case got.err != nil:
	case got.lease != nil:
		a.locker.giveBack(got.lease, nil)
	case got.Image == nil:
		a.discard(a.filter.Pin, a.request.ID, handoffUnknown(), false, nil)
	case got.Outcome == engine.Waiting:
		a.discard(a.filter.Pin, a.request.ID, unsure{}, true, nil)
	case got.Outcome == engine.Granted:
		a.locker.giveBack(a.locker.leases.New(a.locker.engine.Grant(got.Image, a.request.Tag, a.request.ID), got.Sent, false), nil)
	}
}

// handoffUnknown is a handoff of unknown outcome: one more attempt to enter its
// successor.
func handoffUnknown() unsure { return unsure{n: 1, last: time.Now()} }
