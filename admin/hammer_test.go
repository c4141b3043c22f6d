package admin_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/adjust"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
)

// short is a TTL that a Locker's option refuses: a test has no time.
func short(ttl time.Duration) doclock.Option {
	return adjust.Locker(func(c *engine.Config) {
		c.TTL = ttl
	})
}

// Many lock a few documents that come and go. Some leave without a release,
// and two sweep without a pause, with almost no idle time. No lease that is held
// is ever lost, no two are held together, and fencing tokens increase.
func TestSweepBesideRunningLockers(t *testing.T) {
	t.Parallel()
	const documents, workers, leastGrants, leastDeleted, leastRemoved = 3, 6, 40, 4, 1
	p := alone(t)
	ctx, stop := context.WithTimeout(context.Background(), fixture.Patience)
	defer stop()
	var grants, deleted, removed atomic.Int64
	enough := func() bool {
		return grants.Load() >= leastGrants && deleted.Load() >= leastDeleted && removed.Load() >= leastRemoved || ctx.Err() != nil || t.Failed()
	}
	var holders [documents]atomic.Int32
	var fences [documents]atomic.Int64 // of the last grant; read and set by the holder alone

	var all sync.WaitGroup
	for i := range workers {
		l := p.locker(relations.Exclusive(), doclock.Upsert(), doclock.TTL(time.Minute))
		leaver := p.locker(relations.Exclusive(), doclock.Upsert(), short(20*time.Millisecond), doclock.AttemptTimeout(10*time.Second), doclock.ClockTolerance(0))
		all.Go(func() {
			for n := i; !enough(); n++ {
				if n%10 == 0 { // its lease ends by itself; nothing is written under it
					_, _ = leaver.TryAcquire(ctx, doclock.ID(n%documents), "write")
					continue
				}
				hold(ctx, t, l, n%documents, &holders[n%documents], &fences[n%documents])
				grants.Add(1)
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for !enough() {
				count, err := admin.Sweep(ctx, p.coll, admin.IdleFor(time.Millisecond))
				if err != nil && ctx.Err() == nil {
					t.Errorf("Sweep: %v", err)
				}
				deleted.Add(count.Deleted)
				removed.Add(count.Removed)
			}
		})
	}
	all.Wait()
	if grants.Load() < leastGrants || deleted.Load() < leastDeleted || removed.Load() < leastRemoved {
		t.Errorf("too little was tried: %d grants, %d documents deleted, %d entries removed", grants.Load(), deleted.Load(), removed.Load())
	}
	t.Logf("%d grants, %d documents deleted, %d entries removed", grants.Load(), deleted.Load(), removed.Load())
}

// hold acquires a document's lock, checks what must hold under it, and releases
// it.
func hold(ctx context.Context, t *testing.T, l *multilock.Locker, id int, holders *atomic.Int32, last *atomic.Int64) {
	lease, err := l.Acquire(ctx, doclock.ID(id), "write")
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, doclock.ErrNotFound) { // deleted again before the acquire came back to it
			t.Errorf("Acquire: %v", err)
		}
		return
	}
	if n := holders.Add(1); n != 1 {
		t.Errorf("%d hold document %d", n, id)
	}
	if before := last.Swap(lease.Fence()); before >= lease.Fence() {
		t.Errorf("document %d: fencing token %d after %d", id, lease.Fence(), before)
	}
	if err := lease.Renew(ctx); err != nil && ctx.Err() == nil {
		t.Errorf("a held lease: %v", err)
	}
	holders.Add(-1)
	if err := lease.Release(ctx); err != nil && ctx.Err() == nil {
		t.Errorf("Release of a held lease: %v", err)
	}
}
