package multilock

import (
	"cmp"
	"context"
	"errors"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/waitqueue"
)

// Wait waits until the lock is granted or ctx ends, and confirms meanwhile. A
// release in this process wakes it. The entry stays after the end of ctx: call Wait
// again within a WaitTTL, or cancel the ticket. The error is ctx's, joined with the
// last conflict. Every error is a [doclock.ErrNotAcquired].
func (t *Ticket) Wait(ctx context.Context) (*doclock.Lease, error) {
	if attempt.InTransaction(ctx) {
		return nil, notAcquired(errInTransaction)
	}
	held, err := t.wait(ctx)
	return (*doclock.Lease)(held), t.place.a.failed(ctx, err, t.conflict())
}

// wait waits in the document's wait queue, as an Acquire whose place is there.
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
	queues := t.place.a.locker.queues
	known, answers := t.known()
	if t.decided() {
		return t.handOver()
	}
	gone := false
	w := queues.Enter(t.document(), t.request(), known)
	defer func() {
		if !gone { // else its command's end is the waiter's
			queues.Leave(w)
		}
	}()
	for {
		turn, err := queues.Await(ctx, w)
		if err != nil {
			return nil, err
		}
		held, gone, err = t.use(ctx, turn, func(done func()) {
			done()
			queues.Leave(w)
		})
		before := answers
		known, answers = t.known()
		if gone || answers == before { // a Confirm or a Cancel has decided, or there is no answer
			if engine.AsFailure(err).NotSent {
				queues.Fail(w, err)
			}
			return held, err
		}
		queues.Settle(w, waitqueue.Result{ID: t.ID(), Held: idOf(held), Place: known.Place, Image: known.Image, Sent: known.Sent, Document: t.document()})
		if !errors.Is(err, doclock.ErrConflict) {
			return held, err
		}
	}
}

func (t *Ticket) document() string { return waitqueue.Key(t.place.grant.Pin) }

// request is the ticket as a waiter. A lock that is handed over to it is the
// ticket's, whether or not a caller waits.
func (t *Ticket) request() waitqueue.Request {
	r := t.place.a.request
	r.Late = func(turn waitqueue.Turn) {
		t.place.a.locker.ops.Go(func() { _ = t.receive(turn.Answer) })
	}
	return r
}

// known is the last answer, as the wait queue takes it, and its number.
func (t *Ticket) known() (waitqueue.Known, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return waitqueue.Known{Place: t.place.queued(), Image: t.seen.Image, Sent: t.seen.Sent.Mono, Answered: t.answered}, t.answers
}

// use takes a handoff's answer, or asks the server. A handoff of unknown outcome
// was for the ticket's own entry, so a confirm finds the outcome.
func (t *Ticket) use(ctx context.Context, turn waitqueue.Turn, abandoned func(done func())) (held *lease.Handle, gone bool, _ error) {
	if turn.Answer.Image == nil {
		return t.confirm(ctx, abandoned)
	}
	refused, gaveUp := attempt.Run(ctx, &t.place.a.locker.ops, func() error { return t.receive(turn.Answer) }, func(error) {})
	if err := cmp.Or(gaveUp, refused); err != nil {
		return nil, false, err
	}
	held, err := t.handOver()
	return held, false, err
}

// receive applies a handoff's answer, once no command is under way. An answer
// without an image has no effect.
func (t *Ticket) receive(got engine.Answer) error {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if got.Image == nil {
		return nil
	}
	return t.judge(got)
}
