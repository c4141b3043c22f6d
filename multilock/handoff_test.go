package multilock_test

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Whom a release hands the lock over to, and who asks.

func TestALocalReleaseHandsTheLockOver(t *testing.T) {
	t.Parallel()
	for name, handoff := range handoffs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, w := p.watched()
			l := p.locker(coll, relations.Exclusive())
			first := p.got(l.Acquire(t.Context(), flowers, "write"))
			var seen struct{ Total int32 }
			second := acquire(t, t.Context(), l, "write", doclock.Into(&seen))
			p.queued(l, 1)
			p.sends(w, 1, name, func() error { return handoff.release(first) })
			got := p.granted(second)
			if got.Fence() <= first.Fence() || got.ID() == first.ID() || got.Err() != nil {
				t.Errorf("the successor's lease: %d after %d, %v", got.Fence(), first.Fence(), got.Err())
			}
			if want := 1 + handoff.adds; seen.Total != want {
				t.Errorf("the successor reads %d, want %d", seen.Total, want)
			}
			p.wantEntries(got)
			ok(t, got.Release(t.Context()))
			p.wantEntries()
		})
	}
}

// A waiter whose filter has more than an _id is not a successor: the holder may
// have changed the fields that the filter names.
func TestASuccessorsFilterIsAskedAgain(t *testing.T) {
	virtual(t, func(p *place) {
		r := p.relay(relations.Exclusive(), "write")
		next := begin(p, func() (doclock.Lease, error) { return r.locks.Acquire(r.bounded(), byName, "write") })
		r.queued(r.locks, 1)
		must(p, r.holder.UpdateAndRelease(p.Context(), bson.M{"$set": bson.M{"name": "trees"}}))
		lease, err := next.wait()
		r.want(err, doclock.ErrNotFound)
		if lease != nil {
			p.Error("it has what it didn't ask for")
		}
		r.rest(r.locks)
		r.wantEntries()
	})
}

// A waiter's entry is removed from the document. The waiters that it blocked are woken,
// though they would not ask for long.
func TestARemovedEntryWakesTheNext(t *testing.T) {
	virtual(t, func(p *place) {
		long := []doclock.Option{doclock.TTL(100 * time.Hour), waitTTL(100 * time.Hour)}
		l := p.locker(p.coll, relations.WritePreferring(), long...)
		p.try(p.locker(p.coll, relations.WritePreferring(), long...), "read")
		writer := p.enqueue(l, "write")
		reader := acquire(p, p.Context(), l, "read")
		time.Sleep(10 * time.Minute) // which makes its pauses long
		must(p, writer.Cancel(p.Context()))
		begun := time.Now()
		p.granted(reader)
		if took := time.Since(begun); took > 100*time.Millisecond {
			p.Errorf("it was let in after %v", took)
		}
	})
}

// Rule 15: the answer has come, and the waiter leaves without it.
func TestRule15ASuccessorThatLeavesWithoutTheAnswerLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for _, rules := range []relations.Rules{relations.Exclusive(), relations.Fair()} {
		p := newPlace(t)
		l := p.locker(p.coll, rules)
		holder := p.try(l, "write")
		ok(t, l.GiveUp(t.Context(), flowers, "write", func() {
			p.release(holder)
			if n := len(p.entries()); n != 1 {
				t.Errorf("%d entries: it was not handed over", n)
			}
		}))
		p.rest(l)
		p.wantEntries()
	}
}

// No waiter asks past the first one while the first waits only for commands that
// are under way. With overlapping readers there is always such a command.
func TestNoWaiterAsksPastTheFirst(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.sharing(coll)
	leases := []doclock.Lease{p.acquire(l, "read")}
	var asking []*pending[doclock.Lease]
	var asked []*faultnet.Fault
	read := func() *pending[doclock.Lease] { return acquire(t, p.bounded(), l, "read", doclock.Into(&bson.M{})) }
	ask := func() {
		asked = append(asked, net.Arm(faultnet.DelayReply, "findAndModify"))
		asking = append(asking, read())
		wait(t, asked[len(asked)-1].Fired())
	}
	ask()
	writer := acquire(t, p.bounded(), l, "write")
	p.queued(l, 1)
	ask()
	for i, answered := range asked {
		must(t, answered.Let())
		leases = append(leases, p.granted(asking[i]))
		if i == 0 { // the writer is the first now
			asking = append(asking, read())
			p.queued(l, 2)
		}
	}
	p.eventually("the writer waits in the document", func() bool { return len(p.entries("write")) == 1 })
	for _, lease := range leases {
		p.release(lease)
	}
	for _, next := range []*pending[doclock.Lease]{writer, asking[2]} {
		p.release(p.granted(next))
	}
}

// named is a value that a registry encodes as the _id of the flowers.
type named string

// Only the caller's registry can encode the _id. A release still wakes the
// waiter.
func TestTheWaitQueueOfAnEncodedID(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	registry := bson.NewRegistry()
	registry.RegisterTypeEncoder(reflect.TypeFor[named](), bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, _ reflect.Value) error {
		return w.WriteInt32(1)
	}))
	l := p.locker(p.Through(options.Client().SetRegistry(registry)), relations.Exclusive(), doclock.TTL(time.Hour))
	ctx, filter := p.bounded(), bson.M{"_id": named("flowers")}
	for _, acquire := range []func(context.Context, any, string, ...doclock.AcquireOption) (doclock.Lease, error){l.Acquire, l.TryAcquire} {
		holder, err := acquire(ctx, filter, "write")
		must(t, err)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				lease, err := l.Acquire(ctx, filter, "write")
				if err != nil {
					t.Error(err)
					return
				}
				ok(t, lease.Release(ctx))
			})
		}
		p.queued(l, 3)
		p.release(holder)
		all.Wait()
	}
	p.eventually("the wait queues are dropped", func() bool { return l.WaitQueues() == 0 })
}

// If only the server knows which document the filter finds, a waiter gets no
// place in the document before its turn in the wait queue. An earlier place would
// block the waiters ahead of it.
func TestAWaiterByAnyFilterWaitsForItsTurn(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair(), doclock.TTL(relayTTL), waitTTL(relayTTL))
		holder := p.acquire(l, "write")
		var all []*pending[doclock.Lease]
		for i, filter := range []bson.M{flowers, flowers, byName, flowers, byName} {
			all = append(all, begin(p, func() (doclock.Lease, error) { return l.Acquire(p.bounded(), filter, "write") }))
			p.queued(l, i+1)
		}
		p.eventually("the first waits in the document", func() bool { return len(p.entries("write")) >= 2 })
		if n := len(p.entries("write")); n != 2 {
			p.Errorf("%d wait in the document, want the first of them alone", n-1)
		}
		fences := []int64{holder.Fence()}
		for _, one := range all {
			p.release(holder)
			holder = p.granted(one)
			fences = append(fences, holder.Fence())
		}
		if !slices.IsSorted(fences) {
			p.Errorf("served out of order: %v", fences)
		}
	})
}
