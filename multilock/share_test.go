package multilock_test

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Rule 21: holders of one process share an entry. internal/lease and internal/waitqueue
// have the tests of their parts.

// sharing is a locker whose readers share their entries.
func (p *place) sharing(coll *mongo.Collection, opts ...doclock.Option) *multilock.Locker {
	p.Helper()
	return p.locker(coll, relations.WritePreferring(), append(opts, doclock.ShareInProcess("read"))...)
}

// A reader that leaves at the moment when it is let in leaves no part of the entry behind.
func TestRule21AReaderLeavesAsItIsLetIn(t *testing.T) {
	virtual(t, func(p *place) {
		coll, net := p.faulty()
		l := p.sharing(coll)
		held := net.Arm(faultnet.Hold, "findAndModify")
		first := acquire(p, p.Context(), l, "read")
		<-held.Fired()
		ctx := &endsAt{p.Context(), make(chan struct{})}
		var all []*pending[doclock.Lease]
		for range 20 { // each chooses one of both, and so not all of them are let in
			all = append(all, acquire(p, ctx, l, "read"))
		}
		synctest.Wait()
		must(p, held.Let())
		must(p, p.granted(first).Release(p.Context()))
		close(ctx.moment)
		left := 0
		for _, reader := range all {
			if lease, err := reader.wait(); err != nil {
				left++
			} else {
				must(p, lease.Release(p.Context()))
			}
		}
		synctest.Wait()
		if p.wantEntries(); left == 0 {
			p.Error("nobody has left")
		}
	})
}

// endsAt is a context that ends at a moment. Its Done waits for that moment.
type endsAt struct {
	context.Context
	moment chan struct{}
}

func (c *endsAt) Done() <-chan struct{} { <-c.moment; return c.moment }

func (c *endsAt) Err() error {
	select {
	case <-c.moment:
		return context.Canceled
	default:
		return nil
	}
}

// Readers that arrive at the same time share one entry and cost two commands,
// however they ask. They exclude others until the last one leaves.
func TestRule21LocalHoldersShareAnEntry(t *testing.T) {
	virtual(t, func(p *place) { // a reader asks again 200 ms after the last image
		coll, w := p.watched()
		l, theirs := p.sharing(coll), p.locker(p.coll, relations.WritePreferring())
		const readers = 20
		var all []*pending[doclock.Lease]
		for range readers {
			all = append(all, acquire(p, p.Context(), l, "read"))
		}
		leases := []doclock.Lease{p.granted(all[0])}
		for _, one := range all[1:] {
			leases = append(leases, p.granted(one))
		}
		leases = append(leases, p.try(l, "read"))
		if sent := w.Take(); len(sent) != 1 {
			p.Errorf("%d readers sent %v", len(leases), sent)
		}
		p.wantEntries(leases[0])
		for i, lease := range leases {
			if lease.ID() != leases[0].ID() || lease.Fence() != leases[0].Fence() {
				p.Errorf("reader %d has entry %v, %d", i, lease.ID(), lease.Fence())
			}
			p.want(errOf(theirs.TryAcquire(p.bounded(), flowers, "write")), doclock.ErrConflict)
			want := 0
			if i == readers {
				want = 1
			}
			p.sends(w, want, "release", func() error { return lease.Release(p.Context()) })
			p.want(lease.Err(), doclock.ErrReleased)
		}
		p.wantEntries()
		p.eventually("the wait queue is dropped", func() bool { return l.WaitQueues() == 0 })
	})
}

// Holders that leave at the same time, long before the end, have lost nothing: one of
// them releases the entry, and each release returns nil.
func TestRule21HoldersThatLeaveTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	const sharers, rounds = 64, 30
	p := newPlace(t)
	locks := p.sharing(p.coll)
	for range rounds {
		var leases []doclock.Lease
		for range sharers {
			leases = append(leases, p.try(locks, "read"))
		}
		var all sync.WaitGroup
		start := make(chan struct{})
		for _, l := range leases {
			all.Go(func() {
				<-start
				ok(t, l.Release(p.bounded()))
			})
		}
		close(start)
		all.Wait()
	}
	p.wantEntries()
}

// No holder joins after an image has shown an entry that blocks the tag. A
// holder checks for one 200 ms after the last image, or when a third of the lease
// has passed.
func TestRule21NoHolderJoinsPastAWaiter(t *testing.T) {
	t.Parallel()
	for name, passes := range map[string]time.Duration{"unchecked": 220 * time.Millisecond, "third": 180 * time.Millisecond} {
		virtually(t, name, func(p *place) {
			coll, w := p.watched()
			var clocks turned
			ttl := 10 * time.Second
			if name == "third" {
				ttl = 500 * time.Millisecond
			}
			l, theirs := p.sharing(coll, clocks.option(), short(ttl), doclock.ClockTolerance(time.Minute)), p.locker(p.coll, relations.WritePreferring())
			first := p.acquire(l, "read")
			clocks.Pass(passes)
			var second doclock.Lease
			p.sends(w, 1, "acquire", func() (err error) { second, err = l.Acquire(p.bounded(), flowers, "read"); return err })
			if r := first.Remaining(); second.ID() != first.ID() || r <= ttl-passes/2 {
				p.Errorf("%v joined %v, of which %v remain", second.ID(), first.ID(), r)
			}
			p.enqueue(theirs, "write")
			p.sends(w, 0, "acquire", func() (err error) { second, err = l.TryAcquire(p.bounded(), flowers, "read"); return err })
			clocks.Pass(passes)
			p.sends(w, 1, "acquire", func() (err error) { _, err = l.TryAcquire(p.bounded(), flowers, "read"); return err }, doclock.ErrConflict)
		})
	}
}

// The image of any answer counts: that of a waiter, and that of a refused try.
func TestRule21AWaiterIsSeenByOthers(t *testing.T) {
	t.Parallel()
	virtually(t, "a waiter of the process", func(p *place) {
		l := p.sharing(p.coll)
		first := p.acquire(l, "read")
		next := acquire(p, p.Context(), l, "write")
		p.waiting("write")
		p.queued(l, 1)
		p.want(errOf(l.TryAcquire(p.bounded(), flowers, "read")), doclock.ErrConflict)
		p.release(first)
		p.release(p.granted(next))
	})
	virtually(t, "another process's, by a try", func(p *place) {
		l, theirs := p.sharing(p.coll), p.locker(p.coll, relations.WritePreferring())
		p.acquire(l, "read")
		p.enqueue(theirs, "write")
		for _, opts := range [][]doclock.AcquireOption{{doclock.Into(&bson.M{})}, nil} { // the second sends nothing
			p.want(errOf(l.TryAcquire(p.bounded(), flowers, "read", opts...)), doclock.ErrConflict)
		}
	})
}

// A waiter whose check finds a waiting writer asks for an entry of its own from
// then on. Further checks would keep the shared entry alive, without a pause.
func TestRule21ACheckThatFindsAWaiterIsTheLast(t *testing.T) {
	virtual(t, func(p *place) {
		var clocks turned
		coll, net := p.faulty()
		l, theirs := p.sharing(coll, clocks.option()), p.locker(p.coll, relations.WritePreferring())
		first, waiting := p.acquire(l, "read"), p.enqueue(theirs, "write")
		var checks, commands atomic.Int32
		net.ArmWhere(faultnet.LoseRequest, func(_ string, body bson.Raw) bool {
			commands.Add(1)
			if bytes.Contains(body, []byte("$elemMatch")) {
				checks.Add(1)
			}
			return false
		})
		clocks.Pass(1100 * time.Millisecond)
		second := acquire(p, p.bounded(), l, "read")
		p.eventually("it has asked a few times", func() bool { return commands.Load() >= 5 })
		if n := checks.Load(); n != 1 {
			p.Errorf("it checked %d times", n)
		}
		p.release(first)
		must(p, waiting.Cancel(p.bounded()))
		p.release(p.granted(second))
	})
}

// A grant that is older than the last image makes no entry joinable.
func TestRule21NoHolderJoinsALateGrant(t *testing.T) {
	virtual(t, func(p *place) {
		coll, net := p.faulty()
		l, theirs := p.sharing(coll), p.locker(p.coll, relations.WritePreferring())
		granted := net.Arm(faultnet.DelayReply, "findAndModify")
		first := begin(p, func() (doclock.Lease, error) { return l.TryAcquire(p.bounded(), flowers, "read") })
		wait(p, granted.Fired())
		waiting := p.enqueue(theirs, "write")
		second := acquire(p, p.bounded(), l, "read")
		p.queued(l, 1)
		must(p, granted.Let())
		lease := p.got(first.wait())
		p.want(errOf(l.TryAcquire(p.bounded(), flowers, "read")), doclock.ErrConflict)
		select {
		case <-second.done:
			p.Error("a reader passed a writer that it had seen itself")
		default:
		}
		p.release(lease)
		must(p, waiting.Cancel(p.bounded()))
		p.release(p.granted(second))
	})
}

// Waiters behind the one that waits in the document join its entry when it is
// granted, although others have arrived since: they have no places of their own.
func TestWaitersBehindAPlaceJoinItsEntry(t *testing.T) {
	virtual(t, func(p *place) {
		l, theirs := p.locker(p.coll, relations.Fair(), doclock.ShareInProcess("read")), p.locker(p.coll, relations.Fair(), waitTTL(time.Minute))
		holder := p.acquire(theirs, "write")
		var all []*pending[doclock.Lease]
		for range 10 {
			all = append(all, acquire(p, p.bounded(), l, "read"))
		}
		p.waiting("read")
		p.queued(l, len(all))
		next := p.enqueue(theirs, "write")
		p.release(holder)
		var leases []doclock.Lease
		for _, one := range all {
			leases = append(leases, p.granted(one))
		}
		if n := len(p.entries("read")); n != 1 {
			p.Errorf("they have %d entries", n)
		}
		p.want(errOf(l.TryAcquire(p.bounded(), flowers, "read")), doclock.ErrConflict)
		for _, lease := range leases {
			p.release(lease)
		}
		p.release(p.got(next.Wait(p.bounded())))
	})
}

// Several checks may be under way, each for a caller that wants the document. (The race
// detector is what fails.)
func TestChecksAtTheSameTime(t *testing.T) {
	virtual(t, func(p *place) {
		var clocks turned
		l := p.sharing(p.coll, clocks.option())
		first := p.acquire(l, "read")
		clocks.Pass(1100 * time.Millisecond)
		var all []*pending[doclock.Lease]
		for range 8 {
			all = append(all, begin(p, func() (doclock.Lease, error) {
				return l.TryAcquire(p.bounded(), flowers, "read", doclock.Into(&bson.M{}))
			}))
		}
		for _, one := range all {
			p.release(p.granted(one))
		}
		p.release(first)
		p.wantEntries()
	})
}

// A caller that wants the document sends a command, and joins. A caller whose
// filter has more than an _id, or that takes a ticket, gets an entry of its own.
func TestHoldersWithAnEntryOfTheirOwn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.sharing(coll)
	first := p.acquire(l, "read")
	p.Change(bson.M{"$set": bson.M{"total": 7}})
	for name, acquire := range map[string]func(*multilock.Locker, string, ...doclock.AcquireOption) doclock.Lease{"Acquire": p.acquire, "TryAcquire": p.try} {
		var doc struct{ Total int }
		p.sends(w, 1, name, func() error {
			if second := acquire(l, "read", doclock.Into(&doc)); second.ID() != first.ID() {
				t.Errorf("%s has made an entry of its own", name)
			}
			return nil
		})
		if doc.Total != 7 {
			t.Errorf("the document has %d, want 7", doc.Total)
		}
	}
	var wrong struct{ Name int }
	p.sends(w, 1, "acquire", func() error {
		if _, err := l.Acquire(p.bounded(), flowers, "read", doclock.Into(&wrong)); err == nil {
			t.Error("a text was decoded into a number")
		}
		return nil
	})
	open := p.got(l.Acquire(p.bounded(), bson.M{"_id": 1, "name": "flowers"}, "read"))
	named := p.got(l.Acquire(p.bounded(), byName, "read"))
	ticketed := p.got(p.enqueue(l, "read").Confirm(p.bounded()))
	p.wantEntries(first, open, named, ticketed)
}
