package multilock

import (
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
)

// waited is how a wait ended.
type waited struct {
	lease *doclock.Lease
	err   error
}

// wait asks until the lock is granted, ctx ends, the locker is closed, or
// something other than a conflict comes back. Close waits for it to end, so
// that it returns when what the waiters had in their documents is removed.
func (a *acquisition) wait(ctx context.Context) (*doclock.Lease, error) {
	w, _ := attempt.Run(context.Background(), &a.locker.ops, func() waited { return a.ask(ctx) }, nil)
	return w.lease, w.err
}

// ask asks again and again. A tag that waits in the document keeps its place
// there; any other is refused and asks anew.
func (a *acquisition) ask(ctx context.Context) waited {
	var last error // the last conflict
	for {
		t, err := a.arrive(ctx)
		if err == nil {
			lease, err := a.await(ctx, t)
			if errors.Is(err, doclock.ErrLost) { // pruned: at the end of the queue again
				a.renamed()
				last = t.conflict()
				continue
			}
			return waited{lease, err}
		}
		if !errors.Is(err, doclock.ErrConflict) {
			return waited{err: cutShort(ctx, err, last)}
		}
		last = err
		if woken := a.sleep(ctx, a.pause(err)); woken != nil {
			return waited{err: cutShort(ctx, woken, last)}
		}
	}
}

// cutShort joins the last conflict to the error of a wait that was ended from
// outside: by its context, or by Close.
func cutShort(ctx context.Context, err, last error) error {
	if errors.Is(err, doclock.ErrClosed) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return errors.Join(err, last)
	}
	return err
}

// await waits with a ticket, and abandons it when the wait is over in vain.
func (a *acquisition) await(ctx context.Context, t *Ticket) (*doclock.Lease, error) {
	lease, err := t.Wait(ctx)
	if err != nil && !errors.Is(err, doclock.ErrLost) {
		t.abandon()
	}
	return lease, err
}

// pause is how long to wait after a conflict.
func (a *acquisition) pause(conflict error) time.Duration {
	var c *doclock.ConflictError
	if !errors.As(conflict, &c) {
		return pause(time.Since(a.begun), 0)
	}
	return pause(time.Since(a.begun), c.RetryAfter)
}

// sleep ends with an error when ctx does, or the locker is closed.
func (a *acquisition) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return attempt.Ended(ctx)
	case <-a.locker.ops.Closing():
		return doclock.ErrClosed
	}
}
