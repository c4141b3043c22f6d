package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/internal/waitqueue"
)

// One goroutine owns an acquire, from the call to the lease: what it sends runs to its end,
// and what it made is the caller's lease or is removed. The caller leaves in acquire alone.

// granted is a lease, and the document as of the grant.
type granted struct {
	lease *lease.Lease
	image *engine.Image
	sent  time.Duration // when the command was sent, on the monotonic clock
}

// holder is a lease, or a user's part of a shared one.
type holder interface {
	doclock.Lease
	Base() *lease.Lease
	Work(context.Context) (context.Context, context.CancelCauseFunc)
	Unlock(context.Context) error
}

func base(h holder) *lease.Lease {
	if h == nil {
		return nil
	}
	return h.Base()
}

// acquire acquires the lock, and waits for it, for as long as MaxWait says. Close waits for
// its end, and so returns after the waiters' entries were removed, and documents decoded.
func (c *call) acquire(ctx context.Context) (held holder, err error) {
	c.locker.ops.Enter()
	defer c.locker.ops.Leave()
	defer func() {
		events := c.observed.emitEnd(ctx, base(held), err)
		if u, shares := held.(*user); shares {
			u.events = events
		}
	}()
	ctx = c.observed.counted(ctx)
	if c.maxWait != nil {
		most := *c.maxWait
		if c.tries() {
			most = c.bounds.Timeout
			c.bounds.RetryLimit = most / 2 // so that it mostly ends with its reason, before ctx does
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, most, &attempt.Over{After: most})
		defer cancel()
	}
	if err := c.nested(); err != nil {
		return nil, err
	}
	if c.shares() {
		u, err := c.share(ctx)
		if err != nil {
			return nil, err
		}
		return u, nil
	}
	if c.skip { // Close ends it at once
		claiming, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer (&function{end: func(err error) { attempt.End(cancel, err) }, atOnce: true}).begin(c.locker)()
		ctx = claiming
	}
	type result struct {
		granted
		err error
	}
	got, gone := attempt.Run(ctx, &c.locker.ops, func() result {
		got, err := c.run(ctx)
		return result{got, err}
	}, func(late result) { c.takeBack(late.lease) })
	if err := cmp.Or(gone, got.err); err != nil {
		return nil, c.failed(ctx, err)
	}
	own, err := c.deliver(got.granted)
	if err != nil {
		return nil, err
	}
	return own, nil
}

// run is the acquire, in its own goroutine.
func (c *call) run(ctx context.Context) (granted, error) {
	switch {
	case c.skip:
		return c.claim(ctx)
	case c.tries():
		return c.try(ctx)
	case c.document == "":
		return c.find(ctx)
	default:
		a := c.arrival()
		return a.wait(ctx, waitqueue.Known{})
	}
}

// takeBack releases a lease whose caller has left.
func (c *call) takeBack(late *lease.Lease) {
	if late != nil {
		late.Unused()
		_ = c.locker.cleanup.released(c.request, late, late.Unlock(context.Background()))
	}
}

// try sends one acquire that doesn't wait.
func (c *call) try(ctx context.Context) (granted, error) {
	a := c.arrival()
	got, err := a.ask(ctx, true)
	return a.end(ctx, got, err, nil)
}

// find asks the server first, because only the server knows which document the filter
// finds. It asks for the lock and not for a place: a place in the document would
// block the earlier waiters of this process.
func (c *call) find(ctx context.Context) (granted, error) {
	a := c.arrival()
	got, err := a.ask(ctx, true)
	if ctx.Err() != nil {
		err = attempt.Ended(ctx)
	}
	if got.lease != nil || !waits(err) {
		return a.end(ctx, got, err, nil)
	}
	a.call = c.of(c.filter.At(c.locker.engine.Pin(got.image)))
	c.progress.refused(err)
	return a.wait(ctx, waitqueue.Known{Image: got.image, Sent: got.sent})
}

// waits says that an acquire goes on after a step with this error: it was refused, or has a
// place.
func waits(err error) bool {
	return err == nil || errors.Is(err, doclock.ErrConflict) && !isNested(err)
}

// wait waits in the document's wait queue until the lock is granted, ctx ends,
// the locker is closed, or something other than a conflict comes back.
func (a *arrival) wait(ctx context.Context, known waitqueue.Known) (got granted, err error) {
	queues := a.locker.queues
	w := queues.Enter(a.document, a.waiter(a.id), known)
	a.observed.emitQueued(w)
	defer a.observed.remind()()
	defer func() { // until its entry is removed a waiter whose caller has left is busy: the next one doesn't ask
		got, err = a.end(ctx, got, err, w)
	}()
	for {
		handed, err := queues.Await(ctx, w)
		if err != nil {
			return granted{}, err
		}
		got, err := a.step(ctx, handed)
		if ctx.Err() != nil {
			if waits(err) {
				a.progress.refused(err)
				err = attempt.Ended(ctx)
			}
			return got, err
		}
		queues.Settle(w, waitqueue.Result{ID: a.id, Held: got.lease != nil, Place: a.queued(), Image: got.image, Document: a.where(got.image)})
		if got.lease != nil {
			return got, nil
		}
		if !waits(err) {
			if a.outage(err) {
				queues.Fail(w, err)
			}
			return granted{}, err
		}
		a.progress.refused(err)
		a.observed.emitWaiting(err)
	}
}

// step reads a handoff's answer, or asks the server. An entry that was pruned is made anew,
// under a new id and at the end of the document's queue.
func (a *arrival) step(ctx context.Context, handed *engine.Answer) (got granted, err error) {
	if handed != nil && handed.Image != nil {
		got, err = a.judge(*handed)
	} else {
		if handed != nil { // the handoff may have made its entry
			a.unsure.count()
		}
		got, err = a.ask(ctx, false)
	}
	for a.pruned {
		*a = a.call.arrival()
		got, err = a.ask(ctx, false)
	}
	return got, err
}

// where is the key of the image's document, or of the one that the filter names.
func (c *call) where(img *engine.Image) string {
	if img == nil {
		return c.document
	}
	return waitqueue.Key(c.locker.engine.Pin(img))
}

// deliver gives the caller the document of a lease, which is released if that fails.
func (c *call) deliver(got granted) (*lease.Lease, error) {
	err := c.decode(got.image, func() { c.locker.cleanup.release(context.Background(), c.request, got.lease, nil) })
	if err != nil {
		return nil, notAcquired(err)
	}
	return got.lease, nil
}

// decode gives the caller the document, in his own goroutine: a command whose caller gave up
// must not write into the caller's memory. If it can't be decoded, or the caller's own
// decoding panics, failed is called.
func (c *call) decode(img *engine.Image, failed func()) error {
	decoded := false
	defer func() {
		if !decoded { // or the caller's code has panicked
			failed()
		}
	}()
	for _, into := range c.into {
		if err := c.locker.engine.Decode(img, into); err != nil {
			return oneline.Because(fmt.Errorf("doclock: decode the document into a %T", into), err)
		}
	}
	decoded = true
	return nil
}
