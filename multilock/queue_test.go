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

// standing waits until n acquires stand in the line of the document.
func (p *place) standing(l *multilock.Locker, n int) {
	p.Helper()
	p.eventually("in line", func() bool { return l.Waiters(1) == n })
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
			p.standing(l, 1)
			p.sends(w, 1, name, func() error {
				if update == nil {
					return first.Release(t.Context())
				}
				return first.UpdateAndRelease(t.Context(), update)
			})
			got := p.granted(second)
			if got.Fence() <= first.Fence() || got.ID() == first.ID() || got.Err() != nil {
				t.Errorf("the heir's lease: %d after %d, %v", got.Fence(), first.Fence(), got.Err())
			}
			want := 1
			if update != nil {
				want = 2
			}
			if seen.Total != want {
				t.Errorf("the heir sees %d, want %d", seen.Total, want)
			}
			p.wantEntries(got)
			if err := got.Release(t.Context()); err != nil {
				t.Error(err)
			}
			p.wantEntries()
		})
	}
}

// In a hot document a critical section costs one command, a bounded number of
// bursts aside, and everybody reads what the one before wrote.
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

// A thousand readers of one process get in together: nobody waits for a reader.
func TestReadersDontStandInEachOthersWay(t *testing.T) {
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
	p.standing(l, readers)
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

// Whoever gives up waiting, the poller included, disturbs nobody else.
func TestCancelInTheLine(t *testing.T) {
	t.Parallel()
	for name, who := range map[string]int{"the poller": 0, "the next": 1, "the last": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			l := p.locker(p.coll, relations.Exclusive())
			holder, err := l.Acquire(t.Context(), flowers, "write")
			if err != nil {
				t.Fatal(err)
			}
			var line [3]*pending[*doclock.Lease]
			var cancels [3]context.CancelFunc
			for i := range line {
				var ctx context.Context
				ctx, cancels[i] = context.WithCancel(t.Context())
				defer cancels[i]()
				line[i] = acquire(t, ctx, l, "write")
				p.standing(l, i+1)
			}
			cancels[who]()
			if _, err := line[who].wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			last := holder
			for i := range line {
				if i == who {
					continue
				}
				if err := last.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				last = p.granted(line[i])
			}
			if err := last.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.wantEntries()
		})
	}
}

// Under a table that queues, whoever waits in the document comes first, and a
// local waiter that waits there too is handed the lock in its turn.
func TestHandoffInATableThatQueues(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	ours, theirs := p.locker(coll, relations.Fair()), p.locker(p.coll, relations.Fair())
	holder, err := ours.Acquire(t.Context(), flowers, "write")
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := theirs.Enqueue(t.Context(), flowers, "write")
	if err != nil {
		t.Fatal(err)
	}
	next := acquire(t, t.Context(), ours, "write")
	p.eventually("in the document", func() bool { return len(p.entries("write")) == 3 })
	p.standing(ours, 1)
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	theirLease, err := stranger.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := theirLease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := p.granted(next)
	last := acquire(t, t.Context(), ours, "write")
	p.eventually("in the document", func() bool { return len(p.entries("write")) == 2 })
	p.standing(ours, 1) // it knows, too
	p.sends(w, 1, "release", func() error { return got.Release(t.Context()) })
	p.granted(last)
}

// A burst ends: another process gets in however many wait in this one.
func TestABurstEnds(t *testing.T) {
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
