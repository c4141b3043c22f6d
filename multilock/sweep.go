package multilock

import (
	"context"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
)

// A holder that dies leaves an entry, and perhaps an open transaction (rule 28). An acquire that the
// entry keeps out settles its mark, and drops the entry with its own grant. This file is for the
// others: acquires that are granted beside it, and claims, which pass over its document.

// mostSwept is the most documents, or entries, that one sweep removes expired entries from.
const mostSwept = 8

// sweeper keeps the sweeps of one Locker few.
type sweeper struct {
	marks sync.Map // those that are swept now, by their ids

	mu     sync.Mutex
	looked time.Duration // when a claim has looked for abandoned documents last, since the Locker was made; 0: never
}

// sweep removes the expired entries of an image whose transactions must be settled, in the
// background.
func (l *Locker) sweep(img *engine.Image) {
	for i, e := range img.Abandoned() {
		if i == mostSwept {
			break
		}
		if _, swept := l.sweeper.marks.LoadOrStore(e.Mark.ID, nil); !swept {
			l.ops.Go(func() {
				defer l.sweeper.marks.Delete(e.Mark.ID)
				_ = l.remove(context.Background(), img, e)
			})
		}
	}
}

// remove settles the mark of an expired entry, and removes the entry.
func (l *Locker) remove(ctx context.Context, img *engine.Image, e engine.Entry) error {
	if _, err := l.leases.Settle(ctx, []engine.Mark{e.Mark}); err != nil {
		return err
	}
	x := engine.Exact{Pin: l.engine.Pin(img), Tag: e.Tag, ID: e.ID, Fence: e.Fence, Expired: e.Expires, Settled: e.Mark.ID}
	_, err := attempt.Once(ctx, l.engine.Attempt(l.engine.TTL).Timeout, func(ctx context.Context) error {
		_, err := l.engine.RemoveEach(ctx, []engine.Exact{x})
		return err
	})
	return err
}

// sweepFor frees the documents of dead holders that match a claim's filter, beside each other: a
// transaction may be open under one of them.
func (l *Locker) sweepFor(ctx context.Context, f engine.Filter) {
	var found []*engine.Image
	_, err := attempt.Once(ctx, l.engine.Attempt(l.engine.TTL).Timeout, func(ctx context.Context) (err error) {
		found, err = l.engine.Abandoned(ctx, f, mostSwept)
		return err
	})
	if err != nil {
		return
	}
	for _, img := range found {
		l.ops.Go(func() {
			for _, e := range img.Abandoned() {
				if l.remove(ctx, img, e) == nil {
					l.idle.released()
				}
			}
		})
	}
}

// sweep sweeps in the background, once in a TTL of the Locker's life. The first claim that waits
// sweeps at once. A document that is freed wakes the waiting claims.
func (c *claim) sweep(ctx context.Context, waits bool) {
	if whole := c.whole; c.locker.sweepIsDue(waits) {
		ctx = engine.WithSending(attempt.Detached(ctx), nil) // it counts for no acquire
		c.locker.ops.Go(func() { c.locker.sweepFor(ctx, whole) })
	}
}

// sweepIsDue says so to one caller in a TTL. Where a claim waits, the first one needn't.
func (l *Locker) sweepIsDue(waits bool) bool {
	s := &l.sweeper
	s.mu.Lock()
	defer s.mu.Unlock()
	now := l.queues.Now()
	if soon := now < s.looked+l.engine.TTL; soon && !(waits && s.looked == 0) {
		return false
	}
	s.looked = now
	return true
}
