package writelock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// What the projects and questions that this library grew from do, or ask for.

func TestMonglockWriteLockAcquireAndRelease(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.Hand)
	first := p.try(l)
	_, err := l.TryAcquire(t.Context(), order) // LockAlreadyTaken
	p.want(err, doclock.ErrConflict)
	_, err = l.TryAcquire(t.Context(), bson.M{"_id": 2}) // RessourceNotFound
	p.want(err, doclock.ErrNotFound)
	p.release(first)
	second := p.try(l)
	p.want(first.Release(t.Context())) // its answer, once more
	p.heldBy(second)
	p.release(second)
}

func TestMonglockWriteLockWasReacquired(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var server fixture.Clock
	l := p.locker(p.Hand, drivenBy(&server), doclock.TTL(time.Second), doclock.ClockTolerance(0))
	first := p.try(l)
	server.Pass(time.Second)
	second := p.try(l)
	p.want(first.Release(t.Context()), doclock.ErrLost)
	p.heldBy(second)
}

func TestMonglockWriteLockNotFound(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.Hand)
	lease := p.try(l)
	p.Change(bson.M{"$unset": bson.M{"lock": 1}})
	p.want(lease.Release(t.Context()), doclock.ErrLost)
	lease = p.try(l)
	p.Delete()
	p.want(lease.Release(t.Context()), doclock.ErrLost)
}

// A lock that falls free when its holder's time is over, by the server's clock
// alone; and a release that removes the holder's own entry only.
func TestServerClockTakeoverAtExpiry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	opts := []doclock.Option{short(200 * time.Millisecond), doclock.ClockTolerance(50 * time.Millisecond)}
	old := p.try(p.locker(p.Hand, opts...))
	gone := p.stored().Lock.Tags.Write[0].Expires

	successor, err := p.locker(p.Hand).Acquire(fixture.Bounded(p), order)
	if err != nil {
		t.Fatal(err)
	}
	p.heldBy(successor)
	if since := p.stored().Lock.Tags.Write[0].Since; since.Before(gone) {
		t.Errorf("taken over %v before the expiry", gone.Sub(since))
	}
	if err := old.Err(); !errors.Is(err, doclock.ErrLost) {
		t.Errorf("the old holder still believes in its lease: %v", err)
	}
	p.want(old.Update(t.Context(), bson.M{"$set": bson.M{"total": 2}}), doclock.ErrLost)
	p.want(old.Release(t.Context()), doclock.ErrLost)
	p.heldBy(successor)
	if got := p.stored().Total; got != 1 {
		t.Errorf("the old holder's write was applied: total is %d", got)
	}
	if successor.Fence() <= old.Fence() {
		t.Errorf("the token went from %d to %d", old.Fence(), successor.Fence())
	}
	p.release(successor)
}

// Several try for it at the moment of the expiry: one takes over.
func TestServerClockTakeoverByOneOnly(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.try(p.locker(p.Hand, short(100*time.Millisecond), doclock.ClockTolerance(0)))
	l := p.locker(p.Hand, doclock.TTL(30*time.Second))
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	var granted atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := l.Acquire(ctx, order)
			if err == nil {
				granted.Add(1)
			} else if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire: %v", err)
			}
		})
	}
	all.Wait()
	if n := granted.Load(); n != 1 {
		t.Errorf("%d took it over", n)
	}
}

// A collection that holds nothing but locks, whose documents are made as they
// are asked for. Those who lose the race for making one meet a duplicate key
// (E11000), which is a conflict, or a grant, and never an error.
func TestSeparateLockCollectionUpsert(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	locks := p.Hand.Database().Collection("locks")
	var lockers []*writelock.Locker
	for range 4 {
		lockers = append(lockers, p.locker(locks, doclock.Upsert()))
	}
	for _, name := range []string{"billing", "mailing", "pruning"} {
		var mu sync.Mutex
		var granted []*doclock.Lease
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				lease, err := lockers[i%len(lockers)].TryAcquire(fixture.Bounded(p), bson.M{"_id": name})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					granted = append(granted, lease)
				} else if !errors.Is(err, doclock.ErrConflict) {
					t.Errorf("TryAcquire: %v", err)
				}
			})
		}
		all.Wait()
		if len(granted) != 1 {
			t.Fatalf("%s: %d were granted", name, len(granted))
		}
		p.release(granted[0])
		lease, err := lockers[0].TryAcquire(fixture.Bounded(p), bson.M{"_id": name})
		if err != nil {
			t.Fatalf("%s, once more: %v", name, err)
		}
		if lease.Fence() <= granted[0].Fence() {
			t.Errorf("%s: the token went from %d to %d", name, granted[0].Fence(), lease.Fence())
		}
		p.release(lease)
	}
	if n, err := locks.CountDocuments(t.Context(), bson.M{}); n != 3 || err != nil {
		t.Errorf("%d lock documents (%v)", n, err)
	}
}

func TestSeparateLockCollectionUpsertWaits(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.Hand.Database().Collection("locks"), doclock.Upsert())
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			err := l.Do(fixture.Bounded(p), bson.M{"_id": "billing"}, func(context.Context, *doclock.Lease) error {
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				inside.Add(-1)
				return nil
			})
			if err != nil {
				t.Errorf("Do: %v", err)
			}
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d were inside at a time", most.Load())
	}
}
