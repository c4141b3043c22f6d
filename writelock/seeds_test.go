package writelock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
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
	mongotest.Virtual(t, func(t *testing.T) {
		p := newPlace(t)
		var server fixture.Clock
		l := p.locker(p.Hand, drivenBy(&server), doclock.TTL(time.Second), doclock.ClockTolerance(0))
		first := p.try(l)
		server.Pass(time.Second)
		second := p.try(l)
		p.want(first.Release(t.Context()), doclock.ErrLost)
		p.heldBy(second)
	})
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
	mongotest.Virtual(t, func(t *testing.T) {
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
	})
}
