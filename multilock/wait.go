package multilock

import (
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock"
)

// wait asks until the lock is granted, ctx ends, or something other than a
// conflict comes back. A tag that waits in the document keeps its place there;
// any other is refused and asks again.
func (a *acquisition) wait(ctx context.Context) (*doclock.Lease, error) {
	for {
		t, err := a.arrive(ctx)
		if err == nil {
			lease, err := a.await(ctx, t)
			if errors.Is(err, doclock.ErrLost) { // pruned: at the end of the queue again
				a.renamed()
				continue
			}
			return lease, err
		}
		if !errors.Is(err, doclock.ErrConflict) {
			return nil, err
		}
		if woken := a.sleep(ctx, a.pause(err)); woken != nil {
			return nil, errors.Join(woken, err)
		}
	}
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
		return context.Cause(ctx)
	case <-a.locker.ops.Closing():
		return doclock.ErrClosed
	}
}
