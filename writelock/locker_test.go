package writelock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.watched(), doclock.Owner("ann"))
	lease := p.try(l)
	p.sends(1, "TryAcquire")
	if lease.Tag() != writelock.Tag || lease.DocumentID().AsInt64() != 1 {
		t.Errorf("the lease is of tag %q, document %v", lease.Tag(), lease.DocumentID())
	}
	p.heldBy(lease)
	_, err := l.TryAcquire(t.Context(), order)
	p.sends(1, "a refused TryAcquire")
	var c *doclock.ConflictError
	if !errors.As(err, &c) || len(c.Holders) != 1 || c.Holders[0].ID != lease.ID() || c.Holders[0].Owner != "ann" {
		t.Errorf("the error is %v", err)
	}
	p.heldBy(lease)
	p.release(lease)
	p.sends(1, "Release")
	p.heldBy(nil)
	_, err = l.TryAcquire(t.Context(), bson.M{"_id": 2})
	p.want(err, doclock.ErrNotFound)
}

// A multilock whose table has the tag sees the entries: an application can
// grow from one package to the other.
func TestMultilockSeesTheSameLocks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	simple := p.locker(p.Hand)
	grown, err := multilock.New(p.Hand, relations.WritePreferring(), doclock.TTL(calm), waitTTL(calm))
	if err != nil {
		t.Fatal(err)
	}
	lease := p.try(simple)
	for _, tag := range []string{"read", writelock.Tag} {
		_, err := grown.TryAcquire(t.Context(), order, tag)
		p.want(err, doclock.ErrConflict)
	}
	p.release(lease)
	lease, err = grown.TryAcquire(t.Context(), order, writelock.Tag)
	if err != nil {
		t.Fatal(err)
	}
	p.heldBy(lease)
	_, err = simple.TryAcquire(t.Context(), order)
	p.want(err, doclock.ErrConflict)
	p.release(lease)

	// A reader is of a tag that the write lock doesn't know: nobody is let in
	// beside it.
	lease, err = grown.TryAcquire(t.Context(), order, "read")
	if err != nil {
		t.Fatal(err)
	}
	_, err = simple.TryAcquire(t.Context(), order)
	p.want(err, doclock.ErrConflict)
	p.release(lease)
}

func TestNewRefusesBadInput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, bad := range map[string]struct {
		opts []doclock.Option
		says []string
	}{
		"TagTTL of an unknown tag": {[]doclock.Option{doclock.TagTTL("read", time.Second)}, []string{"TagTTL", "tags: write"}},
		"TTL":                      {[]doclock.Option{doclock.TTL(time.Millisecond)}, []string{"TTL", "1s"}},
		"several": {[]doclock.Option{doclock.TTL(1), doclock.TagTTL("read", time.Second), doclock.Owner(""), doclock.Field("_id")},
			[]string{"TTL is 1ns", "TagTTL", "Owner", "Field"}},
	} {
		l, err := writelock.New(p.Hand, bad.opts...)
		p.want(err, doclock.ErrInvalidArgument)
		if l != nil {
			t.Errorf("%s: there is a Locker", name)
		}
		for _, word := range bad.says {
			if err != nil && !strings.Contains(err.Error(), word) {
				t.Errorf("%s: the error doesn't say %q: %v", name, word, err)
			}
		}
	}
	_, err := writelock.New(nil)
	p.want(err, doclock.ErrInvalidArgument)
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
