package multilock_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// queued waits until n acquires wait in the document's wait queue.
func (p *place) queued(l *multilock.Locker, n int) {
	p.Helper()
	p.eventually("they wait", func() bool { return l.Waiters(1) == n })
}

func TestALocalReleaseHandsTheLockOver(t *testing.T) {
	t.Parallel()
	for name, update := range map[string]any{
		"release":  nil,
		"classic":  bson.M{"$inc": bson.M{"total": 1}},
		"pipeline": bson.A{bson.M{"$set": bson.M{"total": bson.M{"$add": bson.A{"$total", 1}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, w := p.watched()
			l := p.locker(coll, relations.Exclusive())
			first, err := l.Acquire(t.Context(), flowers, "write")
			if err != nil {
				t.Fatal(err)
			}
			var seen struct{ Total int }
			second := acquire(t, t.Context(), l, "write", doclock.Into(&seen))
			p.queued(l, 1)
			p.sends(w, 1, name, func() error {
				if update == nil {
					return first.Release(t.Context())
				}
				return first.UpdateAndRelease(t.Context(), update)
			})
			got := p.granted(second)
			if got.Fence() <= first.Fence() || got.ID() == first.ID() || got.Err() != nil {
				t.Errorf("the successor's lease: %d after %d, %v", got.Fence(), first.Fence(), got.Err())
			}
			want := 1
			if update != nil {
				want = 2
			}
			if seen.Total != want {
				t.Errorf("the successor reads %d, want %d", seen.Total, want)
			}
			p.wantEntries(got)
			if err := got.Release(t.Context()); err != nil {
				t.Error(err)
			}
			p.wantEntries()
		})
	}
}

// In a hot document a critical section costs one command, apart from a bounded
// number of local runs. Each section reads what the previous one wrote.
func TestOneCommandForEachSection(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	const people, each = 16, 20
	var all sync.WaitGroup
	for range people {
		all.Go(func() {
			for range each {
				var doc struct{ Total int }
				lease, err := l.Acquire(t.Context(), flowers, "write", doclock.Into(&doc))
				if err != nil {
					t.Error(err)
					return
				}
				if err := lease.UpdateAndRelease(t.Context(), bson.M{"$set": bson.M{"total": doc.Total + 1}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	sent := len(w.commands())
	var doc struct{ Total int }
	if err := p.coll.FindOne(t.Context(), flowers).Decode(&doc); err != nil || doc.Total != 1+people*each {
		t.Errorf("total is %d, %v; want %d", doc.Total, err, 1+people*each)
	}
	if per := float64(sent) / (people * each); per > 1.25 {
		t.Errorf("%d commands for %d sections: %.2f each", sent, people*each, per)
	}
	p.wantEntries()
}

// Many readers of one process get the lock together: no reader waits for another.
func TestReadersDontBlockEachOther(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.ReadPreferring())
	writer, err := l.Acquire(t.Context(), flowers, "write")
	if err != nil {
		t.Fatal(err)
	}
	const readers = 50
	var all []*pending[*doclock.Lease]
	for range readers {
		all = append(all, acquire(t, t.Context(), l, "read"))
	}
	p.queued(l, readers)
	if err := writer.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		p.granted(one)
	}
	if n := len(p.entries("read")); n != readers {
		t.Errorf("%d readers are in the document", n)
	}
}

// A waiter that gives up does not disturb the others, even if it is the poller.
func TestCancelInTheWaitQueue(t *testing.T) {
	t.Parallel()
	for name, cancelled := range map[string]int{"the poller": 0, "the next": 1, "the last": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			l := p.locker(p.coll, relations.Exclusive())
			holder, err := l.Acquire(t.Context(), flowers, "write")
			if err != nil {
				t.Fatal(err)
			}
			var waiters [3]*pending[*doclock.Lease]
			var cancels [3]context.CancelFunc
			for i := range waiters {
				var ctx context.Context
				ctx, cancels[i] = context.WithCancel(t.Context())
				defer cancels[i]()
				waiters[i] = acquire(t, ctx, l, "write")
				p.queued(l, i+1)
			}
			cancels[cancelled]()
			if _, err := waiters[cancelled].wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			last := holder
			for i := range waiters {
				if i == cancelled {
					continue
				}
				if err := last.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				last = p.granted(waiters[i])
			}
			if err := last.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.wantEntries()
		})
	}
}

// With rules that have a document queue, the order of the places decides, and a
// local waiter with a place is handed the lock in its turn.
func TestHandoffWithADocumentQueue(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	ours, theirs := p.locker(coll, relations.Fair()), p.locker(p.coll, relations.Fair())
	holder, err := ours.Acquire(t.Context(), flowers, "write")
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := theirs.Enqueue(t.Context(), flowers, "write")
	if err != nil {
		t.Fatal(err)
	}
	next := acquire(t, t.Context(), ours, "write")
	p.eventually("in the document", func() bool { return len(p.entries("write")) == 3 })
	p.queued(ours, 1)
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	theirLease, err := waiting.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := theirLease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := p.granted(next)
	last := acquire(t, t.Context(), ours, "write")
	p.eventually("in the document", func() bool { return len(p.entries("write")) == 2 })
	p.queued(ours, 1) // and its process knows
	p.sends(w, 1, "release", func() error { return got.Release(t.Context()) })
	p.granted(last)
}

// A local run ends: another process gets the lock, even if many wait in this one.
func TestALocalRunEnds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ours, theirs := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				if lease, err := ours.Acquire(ctx, flowers, "write"); err == nil {
					_ = lease.Release(context.Background())
				}
			}
		})
	}
	for range 5 {
		lease, err := theirs.Acquire(p.bounded(), flowers, "write")
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
