package multilock_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Rule 21: callers of one process use one lease.

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
		ctx := &noticedLate{p.Context(), make(chan struct{}), make(chan struct{})}
		reader := acquire(p, ctx, l, "read")
		<-held.Fired()
		close(ctx.over)
		synctest.Wait()
		must(p, held.Let())
		time.Sleep(time.Second) // the lease is there
		close(ctx.noticed)
		_, err := reader.wait()
		p.want(err, context.Canceled)
		p.rest(l)
		p.wantEntries()
	})
}

// noticedLate is a context whose end is noticed later: Err waits.
type noticedLate struct {
	context.Context
	over, noticed chan struct{}
}

func (c *noticedLate) Done() <-chan struct{} { return c.over }

func (c *noticedLate) Err() error {
	select {
	case <-c.over:
		<-c.noticed
		return context.Canceled
	default:
		return nil
	}
}

// A reader who comes after all those who waited for a lease have left doesn't join their acquire, which is still under way.
func TestRule21NobodyJoinsAnAcquireThatAllHaveLeft(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.sharing(p.coll)
		ctx, cancel := context.WithCancel(p.Context())
		p.mem.Delay(1, 3*time.Second)
		left := begin(p, func() (doclock.Lease, error) { return l.Acquire(ctx, flowers, "read") })
		time.Sleep(time.Second)
		cancel()
		p.want(errOf(left.wait()), context.Canceled)
		lease := p.acquire(l, "read")
		time.Sleep(5 * time.Second) // the other acquire's entry is removed
		p.wantEntries(lease)
		p.release(lease)
	})
}

// Readers that arrive at the same time share one entry and cost two commands,
// however they ask. They exclude others until the last one leaves.
func TestRule21LocalHoldersShareAnEntry(t *testing.T) {
	virtual(t, func(p *place) {
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

// Callers that wait together have one place in the document, and one entry when it is
// granted, although others have arrived since.
func TestWaitersBehindAPlaceJoinItsEntry(t *testing.T) {
	virtual(t, func(p *place) {
		l, theirs := p.locker(p.coll, relations.Fair(), doclock.ShareInProcess("read")), p.locker(p.coll, relations.Fair(), waitTTL(time.Minute))
		holder := p.acquire(theirs, "write")
		var all []*pending[doclock.Lease]
		for range 10 {
			all = append(all, acquire(p, p.bounded(), l, "read"))
		}
		p.waiting("read")
		p.queued(l, 1) // for all
		p.want(errOf(l.TryAcquire(p.bounded(), flowers, "read")), doclock.ErrConflict)
		all = append(all, acquire(p, p.bounded(), l, "read")) // it joins those who were there before that
		synctest.Wait()
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

// A caller joins for 200 ms from the grant's send, or for a third of the TTL. Later ones
// acquire anew, by the document's rules: a waiting writer keeps them out.
func TestRule21NobodyJoinsLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ ttl, joins, late time.Duration }{
		"200 ms":             {10 * time.Second, 199 * time.Millisecond, 2 * time.Millisecond},
		"a third of the TTL": {300 * time.Millisecond, 99 * time.Millisecond, 2 * time.Millisecond},
	} {
		virtually(t, name, func(p *place) {
			coll, w := p.watched()
			l, theirs := p.sharing(coll, short(c.ttl)), p.locker(p.coll, relations.WritePreferring())
			first := p.acquire(l, "read")
			w.Take()
			p.enqueue(theirs, "write")
			time.Sleep(c.joins)
			var second doclock.Lease
			p.sends(w, 0, "acquire", func() (err error) { second, err = l.Acquire(p.bounded(), flowers, "read"); return err })
			if second.ID() != first.ID() || second.Remaining() > c.ttl-c.joins {
				p.Errorf("%v joined %v, of which %v remain", second.ID(), first.ID(), second.Remaining())
			}
			time.Sleep(c.late)
			p.sends(w, 1, "acquire", func() (err error) { _, err = l.TryAcquire(p.bounded(), flowers, "read"); return err }, doclock.ErrConflict)
		})
	}
}

// The time counts from the send: nobody joins a grant whose answer has taken longer, not even right
// after it, which chance decides.
func TestRule21NobodyJoinsALateGrant(t *testing.T) {
	virtual(t, func(p *place) {
		coll, net := p.faulty()
		l := p.sharing(coll)
		for range 20 {
			granted := net.Arm(faultnet.DelayReply, "findAndModify")
			first := acquire(p, p.bounded(), l, "read")
			wait(p, granted.Fired())
			time.Sleep(250 * time.Millisecond)
			must(p, granted.Let())
			lease := p.granted(first)
			own := p.try(l, "read")
			if own.ID() == lease.ID() {
				p.Fatal("it was joined")
			}
			p.release(lease)
			p.release(own)
		}
		own := p.try(l, "read")
		must(p, p.mem.Lose(own))
		p.want(own.Renew(p.Context()), doclock.ErrLost)
		ok(p, p.try(l, "read").Err()) // and not the one that is lost
	})
}

// Nobody joins a lease whose grant shows an entry that the tag respects: those who came
// before it would wait for ever longer.
func TestRule21NobodyJoinsBeforeAWaiter(t *testing.T) {
	virtual(t, func(p *place) {
		l, theirs := p.locker(p.coll, relations.Fair(), doclock.ShareInProcess("read")), p.locker(p.coll, relations.Fair())
		holder := p.acquire(theirs, "write")
		first := acquire(p, p.bounded(), l, "read")
		p.waiting("read")
		p.enqueue(theirs, "write")
		p.release(holder)
		p.granted(first)
		p.want(errOf(l.TryAcquire(p.bounded(), flowers, "read")), doclock.ErrConflict)
	})
}

// Readers that overlap for ever let a writer of another process in.
func TestRule21OverlappingReadersLetAWriterIn(t *testing.T) {
	virtual(t, func(p *place) {
		l, theirs := p.sharing(p.coll), p.locker(p.coll, relations.WritePreferring())
		ctx, cancel := context.WithCancel(p.Context())
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 7 * time.Millisecond)
				for ctx.Err() == nil {
					_ = l.Do(ctx, flowers, "read", func(context.Context, doclock.Lease) error { time.Sleep(40 * time.Millisecond); return nil })
				}
			})
		}
		time.Sleep(time.Second)
		for range 3 {
			begun := time.Now()
			p.release(p.acquire(theirs, "write"))
			if took := time.Since(begun); took > 500*time.Millisecond {
				p.Errorf("the writer waited for %v", took)
			}
		}
		cancel()
		all.Wait()
	})
}

// Callers that ask for something of their own have entries of their own.
func TestRule21WhoSharesNothing(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.sharing(p.coll)
		shared := p.acquire(l, "read")
		var doc bson.M
		all := []doclock.Lease{
			shared,
			p.acquire(l, "read", doclock.Into(&doc)),
			p.acquire(l, "read", doclock.TTL(time.Minute)),
			p.acquire(l, "read", doclock.Owner("ann")),
			p.got(l.Acquire(p.bounded(), bson.M{"_id": 1, "name": "flowers"}, "read")),
			p.got(l.Acquire(p.bounded(), byName, "read")),
			p.got(p.enqueue(l, "read").Confirm(p.bounded())),
		}
		for _, lease := range []doclock.Lease{p.acquire(l, "read", doclock.HoldAtLeast(0)), p.try(l, "read")} { // no terms, or none that count
			if lease.ID() != shared.ID() {
				p.Error("it has an entry of its own")
			}
		}
		several, err := multilock.AcquireAll(p.bounded(), l.Want(flowers, "read"))
		must(p, err)
		p.wantEntries(append(all, several...)...)
		for name, end := range map[string]func() error{
			"Delete":  func() error { return shared.Delete(p.bounded()) },
			"Detach":  func() error { return errOf(shared.Detach(p.bounded())) },
			"Convert": func() error { return errOf(shared.Convert(p.bounded(), "read")) },
		} {
			fault{doclock.ErrInvalidArgument, []string{name, "ShareInProcess"}}.check(p, name, end())
		}
		ok(p, shared.Err())
	})
}

// After the end of the validity the first to leave releases for all, and the others have lost
// the lock: somebody may have been let in.
func TestRule21TheFirstToLeaveAfterTheEnd(t *testing.T) {
	t.Parallel()
	for name, beside := range map[string]bool{"nobody was let in": false, "another was": true} {
		virtually(t, name, func(p *place) {
			coll, w := p.watched()
			l := p.sharing(coll, doclock.TTL(2*time.Second))
			first, second := p.acquire(l, "read"), p.acquire(l, "read")
			<-first.Done()
			time.Sleep(10 * time.Second)
			if beside {
				p.try(p.locker(p.coll, relations.WritePreferring()), "write")
			}
			w.Take()
			if beside {
				p.want(first.Release(p.bounded()), doclock.ErrLost)
			} else {
				p.release(first)
			}
			w.Take()
			p.want(second.Update(p.bounded(), bson.M{"$set": bson.M{"total": 1}}), doclock.ErrLost)
			p.want(second.Release(p.bounded()), doclock.ErrLost)
			p.want(second.Release(p.bounded()), doclock.ErrLost)
			if sent := w.Take(); len(sent) > 0 {
				p.Errorf("the second sent %v", sent)
			}
		})
	}
}

// UpdateAndRelease beside others is an update, whose verdict stays whatever becomes of the
// lease; of the only user it is one command.
func TestRule21UpdateAndRelease(t *testing.T) {
	virtual(t, func(p *place) {
		coll, w := p.watched()
		l := p.sharing(coll, doclock.TTL(2*time.Second))
		first, second := p.acquire(l, "read"), p.acquire(l, "read")
		w.Take()
		add := bson.M{"$inc": bson.M{"total": 1}}
		p.sends(w, 1, "beside another", func() error { return first.UpdateAndRelease(p.bounded(), add) })
		p.want(first.Err(), doclock.ErrReleased)
		p.want(first.UpdateAndRelease(p.bounded(), add), doclock.ErrReleased)
		p.wantEntries(second)
		p.want(second.UpdateAndRelease(p.bounded(), bson.M{"total": 1}), doclock.ErrInvalidArgument)
		p.sends(w, 1, "alone", func() error { return second.UpdateAndRelease(p.bounded(), add) })
		p.sends(w, 0, "then", func() error { return second.Release(p.bounded()) })
		if n := p.total(); n != 3 {
			p.Errorf("the total is %d", n)
		}
		p.wantEntries()
	})
}

// A context of KeepAlive ends with its own user, and the others' go on; all end with a loss. One
// that is made later has ended.
func TestRule21ContextsOfUsers(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.sharing(p.coll)
		first, second := p.acquire(l, "read"), p.acquire(l, "read")
		one, two := first.KeepAlive(p.Context()), second.KeepAlive(p.Context())
		time.Sleep(time.Minute)
		p.release(first)
		<-one.Done()
		<-first.Done()
		p.want(context.Cause(one), doclock.ErrReleased)
		for range 100 {
			p.want(context.Cause(first.KeepAlive(p.Context())), doclock.ErrReleased)
		}
		time.Sleep(time.Minute)
		ok(p, context.Cause(two))
		p.erase("read")
		<-two.Done()
		p.want(context.Cause(two), doclock.ErrLost)
		p.want(second.Release(p.bounded()), doclock.ErrLost)
	})
}

// Each of those who wait for a lease together is told of his wait, and nobody after his end.
func TestRule21EventsOfThoseWhoWait(t *testing.T) {
	virtual(t, func(p *place) {
		heard, hear := p.heard()
		l := p.sharing(p.coll, hear)
		writer := p.try(p.plain(relations.WritePreferring(), doclock.TTL(time.Hour)), "write")
		p.mem.Delay(1, time.Second)
		ctx, cancel := context.WithCancel(p.Context())
		first := acquire(p, ctx, l, "read")
		synctest.Wait()
		second, third := acquire(p, p.Context(), l, "read"), acquire(p, p.within(time.Minute), l, "read")
		synctest.Wait()
		cancel()
		p.want(errOf(first.wait()), context.Canceled)
		heard.want("gave up")
		time.Sleep(2 * time.Second)
		for _, e := range heard.want("waiting", "waiting") {
			if len(e.Holders) != 1 {
				t.Errorf("it waits for %v", e.Holders)
			}
		}
		p.want(errOf(third.wait()), context.DeadlineExceeded, doclock.ErrConflict)
		heard.want("still waiting", "still waiting", "gave up")
		p.release(writer)
		p.release(p.granted(second))
		if granted := heard.want("granted", "released")[0]; len(granted.Holders) != 1 {
			t.Errorf("it has waited for %v", granted.Holders)
		}
	})
}

// A user who ends the lease in the context of his KeepAlive has the answer, as the only
// holder of a lease has: the end of the lease itself ends that context.
func TestRule21AUserReleasesInHisContext(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.sharing(p.coll)
		for name, call := range map[string]func(doclock.Lease, context.Context) error{
			"Release": doclock.Lease.Release, "UpdateAndRelease": leaseCalls["UpdateAndRelease"],
		} {
			lease := p.acquire(l, "read")
			p.mem.Delay(1, time.Second)
			if err := call(lease, lease.KeepAlive(p.Context())); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// The last user's release waits for a write whose caller has left. Until it is sent the lease is renewed.
func TestRule21ALeaseIsRenewedUntilItsRelease(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.sharing(p.coll, doclock.TTL(4*time.Second), doclock.AttemptTimeout(time.Minute))
		p.mem.Delay(1, 20*time.Second, locktest.Writes)
		var next *pending[doclock.Lease]
		ok(p, l.Do(p.Context(), flowers, "read", func(ctx context.Context, lease doclock.Lease) error {
			next = acquire(p, p.Context(), p.plain(relations.WritePreferring()), "write")
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			p.want(lease.Update(short, plusOne), doclock.ErrOutcomeUnknown)
			return nil
		}))
		p.release(p.granted(next))
	})
}

// An update that was applied stays applied, whatever the end of the lease finds: it came
// before that.
func TestRule21AnAppliedUpdateStays(t *testing.T) {
	virtual(t, func(p *place) {
		coll, net := p.faulty()
		l := p.sharing(coll, doclock.TTL(2*time.Second))
		first, second := p.acquire(l, "read"), p.acquire(l, "read")
		time.Sleep(1900 * time.Millisecond)
		answer := net.Arm(faultnet.DelayReply, "findAndModify")
		written := begin(p, func() (any, error) { return nil, first.UpdateAndRelease(p.Context(), plusOne) })
		wait(p, answer.Fired())
		time.Sleep(200 * time.Millisecond) // the lease is over, and the attempt is not
		p.acquire(p.locker(p.coll, relations.WritePreferring()), "write")
		must(p, answer.Let())
		ok(p, errOf(written.wait()))
		p.want(second.Release(p.bounded()), doclock.ErrLost)
	})
}

// A shared lease that nobody releases is forgotten once it is over, as others are.
func TestASharedLeaseThatRanOutIsForgotten(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.sharing(p.coll)
		p.acquire(l, "read")
		time.Sleep(time.Hour)
		must(p, errOf(l.Acquire(p.Context(), doclock.ID(2), "read")))
		if n := l.Shares(); n != 1 {
			p.Errorf("%d leases are remembered", n)
		}
	})
}

// A claim shares no acquire: one that waits with it would hear that there is no document.
func TestRule21AClaimSharesNothing(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.sharing(p.coll, doclock.PollInterval(time.Minute))
		p.try(p.plain(relations.WritePreferring()), "write").KeepAlive(p.Context())
		claim := acquire(p, p.Context(), l, "read", doclock.SkipLocked())
		synctest.Wait()
		err := errOf(l.Acquire(p.within(time.Second), flowers, "read"))
		p.want(err, doclock.ErrConflict)
		p.wantNot(err, doclock.ErrNotFound)
		time.Sleep(20 * time.Minute) // it polls seldom by now
		begun := time.Now()
		p.rest(l)
		p.want(errOf(claim.wait()), doclock.ErrClosed)
		if took := time.Since(begun); took > time.Second {
			p.Errorf("Close took %v", took)
		}
	})
}

// A user who has left a shared lease doesn't renew it any more. Its loss doesn't end his function.
func TestRule21AFunctionGoesOnAfterItsRelease(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.sharing(p.coll, doclock.TTL(2*time.Second))
		for _, kept := range []bool{false, true} {
			other := p.acquire(l, "read")
			ok(p, l.Do(p.Context(), flowers, "read", func(ctx context.Context, lease doclock.Lease) error {
				if lease.ID() != other.ID() {
					p.Error("it is not shared")
				}
				if kept {
					other.KeepAlive(p.Context())
				}
				p.release(lease)
				time.Sleep(10 * time.Second)
				if kept {
					ok(p, other.Err())
					p.erase("read")
					<-other.Done()
				}
				p.want(other.Err(), doclock.ErrLost) // else he who has left renews it
				return context.Cause(ctx)
			}))
			_ = other.Release(p.Context())
		}
	})
}

// An UpdateAndRelease beside others, who leave meanwhile, returns as its context ends.
func TestRule21UpdateAndReleaseEndsWithItsContext(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.sharing(p.coll)
		first, second := p.acquire(l, "read"), p.acquire(l, "read")
		p.mem.Delay(1, 5*time.Second, locktest.Writes)
		ctx, cancel := context.WithTimeout(p.Context(), time.Second)
		defer cancel()
		since := time.Now()
		written := begin(p, func() (any, error) { return nil, first.UpdateAndRelease(ctx, plusOne) })
		synctest.Wait()
		p.release(second)
		p.want(errOf(written.wait()), doclock.ErrOutcomeUnknown, context.DeadlineExceeded)
		if took := time.Since(since); took > 2*time.Second {
			p.Errorf("it took %v", took)
		}
		p.rest(l)
		p.wantEntries() // and the lease is released
	})
}

// Shared leases are renewed and released beside each other: a document that a transaction has locked holds up no others.
func TestSharedLeasesOfSeveral(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context, multilock.Leases) error{
		"Renew":   func(ctx context.Context, both multilock.Leases) error { return both.Renew(ctx) },
		"Release": func(ctx context.Context, both multilock.Leases) error { return both.Release(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inShop(t, func(s *shop) {
				c := s.client(relations.ReadPreferring(), doclock.ShareInProcess("read"))
				both := multilock.Leases{c.acquire("read"), nil}
				second, err := c.locks.Acquire(s.Context(), doclock.ID(2), "read")
				must(s, err)
				both[1] = second
				time.Sleep(5 * time.Second)
				unblock := s.block(1)
				called := make(chan error)
				go func() { called <- end(s.Context(), both) }()
				time.Sleep(4 * time.Second)
				if released := second.Err() != nil; released != (name == "Release") || !released && second.Remaining() < 5*time.Second {
					s.Errorf("the other lease: %v", second)
				}
				if name == "Release" {
					ok(s, errOf(c.locks.TryAcquire(s.Context(), doclock.ID(2), "write")))
				}
				unblock()
				ok(s, <-called)
			})
		})
	}
}

// After a loss the shared leases beside the lost one are still renewed.
func TestALossBesideSharedLeases(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"read", "write", ""} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			inShop(t, func(s *shop) {
				c := s.client(relations.ReadPreferring(), doclock.ShareInProcess("read"))
				second, err := c.locks.Acquire(s.Context(), doclock.ID(2), "read")
				must(s, err)
				both := multilock.Leases{nil, second}
				if lost != "" {
					both[0] = c.acquire(lost)
				}
				ctx := both.KeepAlive(s.Context())
				if lost != "" {
					must(s, s.mem.Lose(both[0]))
				}
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, doclock.ErrLost) {
					s.Error(cause)
				}
				time.Sleep(time.Minute)
				ok(s, second.Err())
				ok(s, second.Release(s.Context()))
			})
		})
	}
}
