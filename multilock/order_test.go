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

// Waiters are served in the order of their arrival.
func TestTheWaitQueueIsServedInOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	holder := p.try(l, "write")
	var (
		served []int // under the lock
		all    sync.WaitGroup
	)
	for i := range 5 {
		all.Go(func() {
			lease, err := l.Acquire(p.bounded(), flowers, "write")
			if err != nil {
				t.Error(err)
				return
			}
			served = append(served, i)
			if err := lease.Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
		p.queued(l, i+1)
	}
	p.release(holder)
	all.Wait()
	if !slices.IsSorted(served) || len(served) != 5 {
		t.Errorf("served in the order %v", served)
	}
}

// If the lock can't be handed over, the next waiter is told to ask.
func TestAReleaseWakesTheNext(t *testing.T) {
	t.Parallel()
	r := newRelay(t, relations.Exclusive(), "write")
	ctx, cancel := context.WithTimeout(t.Context(), promptly)
	defer cancel()
	next := begin(t, func() (*doclock.Lease, error) { return r.locks.Acquire(ctx, byName, "write") })
	r.queued(r.locks, 1)
	r.release(r.holder)
	lease, err := next.wait()
	if err != nil {
		t.Fatal(err)
	}
	r.wantEntries(lease)
}

// A waiter whose filter has more than an _id is not a successor: the holder may
// have changed the fields that the filter names.
func TestASuccessorsFilterIsAskedAgain(t *testing.T) {
	t.Parallel()
	r := newRelay(t, relations.Exclusive(), "write")
	next := begin(t, func() (*doclock.Lease, error) { return r.locks.Acquire(r.bounded(), byName, "write") })
	r.queued(r.locks, 1)
	if err := r.holder.UpdateAndRelease(t.Context(), bson.M{"$set": bson.M{"name": "trees"}}); err != nil {
		t.Fatal(err)
	}
	lease, err := next.wait()
	r.want(err, doclock.ErrNotFound)
	if lease != nil {
		t.Error("it has what it didn't ask for")
	}
	r.rest(r.locks)
	r.wantEntries()
}

// When the poller gives up, another waiter polls.
func TestThePollerHasASuccessor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	other := p.try(p.locker(p.coll, relations.Exclusive()), "write")
	l := p.locker(p.coll, relations.Exclusive())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := acquire(t, ctx, l, "write")
	p.eventually("the first asks", func() bool { return l.Waiters(1) == 1 })
	soon, stop := context.WithTimeout(t.Context(), promptly)
	defer stop()
	second := acquire(t, soon, l, "write")
	p.eventually("the second waits behind it", func() bool { return l.Waiters(1) == 2 })
	cancel()
	_, err := first.wait()
	p.want(err, context.Canceled)
	p.release(other)
	lease, err := second.wait()
	if err != nil {
		t.Fatal(err)
	}
	p.wantEntries(lease)
}

// Rule 15: the answer has come, and the waiter leaves without it.
func TestRule15ASuccessorThatLeavesWithoutTheAnswerLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for _, rules := range []relations.Rules{relations.Exclusive(), relations.Fair()} {
		p := newPlace(t)
		l := p.locker(p.coll, rules)
		holder := p.try(l, "write")
		if err := l.GiveUp(t.Context(), flowers, "write", func() error { return holder.Release(t.Context()) }); err != nil {
			t.Error(err)
		}
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
	leases := []*doclock.Lease{p.acquire(l, "read")}
	var asking []*pending[*doclock.Lease]
	var asked []*faultnet.Fault
	read := func() *pending[*doclock.Lease] { return acquire(t, p.bounded(), l, "read", doclock.Into(&bson.M{})) }
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
		if err := answered.Let(); err != nil {
			t.Fatal(err)
		}
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
	for _, next := range []*pending[*doclock.Lease]{writer, asking[2]} {
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
	l := p.locker(p.via(options.Client().SetRegistry(registry)), relations.Exclusive(), doclock.TTL(time.Hour))
	ctx, filter := p.bounded(), bson.M{"_id": named("flowers")}
	for _, acquire := range []func(context.Context, any, string, ...doclock.AcquireOption) (*doclock.Lease, error){l.Acquire, l.TryAcquire} {
		holder, err := acquire(ctx, filter, "write")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				lease, err := l.Acquire(ctx, filter, "write")
				if err != nil {
					t.Error(err)
					return
				}
				if err := lease.Release(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		p.queued(l, 3)
		p.release(holder)
		all.Wait()
	}
	p.eventually("the wait queues are dropped", func() bool { return l.WaitQueues() == 0 })
}
