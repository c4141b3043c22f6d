package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// crowd starts as many acquires of a document as may be under way, and cancels
// their callers.
func (l *pair) crowd(filter any, tag string) (replies []*faultnet.Fault) {
	l.Helper()
	for range multilock.MostPerDocument {
		replies = append(replies, l.giveUp(l.net, func(ctx context.Context) error {
			_, err := l.here.TryAcquire(ctx, filter, tag)
			return err
		}, doclock.ErrNotAcquired))
	}
	l.watch.Take()
	return replies
}

// wantUnsent fails unless a call of a context that ends soon sends nothing.
func (l *pair) wantUnsent(name string, call func(context.Context) error) {
	l.Helper()
	ctx := l.within(20 * time.Millisecond)
	l.sends(l.watch, 0, name, func() error { return call(ctx) }, context.DeadlineExceeded, doclock.ErrNotAcquired)
}

// removes is true of the command that removes entries.
func removes(_ string, command bson.Raw) bool {
	_, err := command.LookupErr("update", "$pull")
	return err == nil
}

func (l *pair) let(replies []*faultnet.Fault) {
	l.Helper()
	for _, reply := range replies {
		must(l, reply.Let())
	}
}

// While too many acquires of a document are under way, further acquires of it
// wait. If their context ends, they have sent nothing. Other documents and the
// leases are not affected.
func TestAcquiresBehindTheBoundWaitUnsent(t *testing.T) {
	t.Parallel()
	lately(t, relations.Semaphore(1), func(l *pair) {
		holder := l.try(l.here, "slot")
		ticket := l.enqueue(l.here, "slot")
		replies := l.crowd(flowers, "slot")
		for name, ask := range asks {
			l.wantUnsent(name, func(ctx context.Context) error { return errOf(ask(l.here, ctx, flowers, "slot")) })
		}
		l.wantUnsent("Confirm", func(ctx context.Context) error { _, err := ticket.Confirm(ctx); return err })
		l.release(l.got(l.here.TryAcquire(l.bounded(), bson.M{"_id": 2}, "slot")))
		ok(l, holder.Renew(l.bounded()))
		l.release(holder)
		l.let(replies)
		must(l, ticket.Cancel(l.bounded()))
		l.rest(l.here)
		l.wantEntries()
	})
}

// The acquires of one Locker leave connections in the driver's pool for its
// leases.
func TestAcquiresOfManyDocumentsAreBounded(t *testing.T) {
	t.Parallel()
	lately(t, relations.Exclusive(), func(l *pair) {
		holder := l.try(l.here, "write")
		var replies []*faultnet.Fault
		const first, last = 3, 2 + multilock.MostPerLocker/multilock.MostPerDocument
		for id := first; id <= last+1; id++ {
			_, err := l.coll.InsertOne(l.Context(), bson.M{"_id": id})
			must(l, err)
		}
		for id := first; id <= last; id++ {
			replies = append(replies, l.crowd(bson.M{"_id": id}, "write")...)
		}
		try := func(ctx context.Context) (doclock.Lease, error) {
			return l.here.TryAcquire(ctx, bson.M{"_id": last + 1}, "write")
		}
		for range multilock.MostPerDocument { // whoever leaves keeps no place of the document's
			l.wantUnsent("TryAcquire", func(ctx context.Context) error { return errOf(try(ctx)) })
		}
		ok(l, holder.Renew(l.bounded()))
		l.release(holder)
		l.let(replies)
		l.release(l.got(try(l.bounded())))
	})
}

// Close wakes the callers that have sent nothing. It doesn't wait for the
// commands ahead of theirs.
func TestCloseWakesAcquiresBehindTheBound(t *testing.T) {
	t.Parallel()
	lately(t, relations.Exclusive(), func(l *pair) {
		replies := l.crowd(flowers, "write")
		var calls []*pending[doclock.Lease]
		for range 3 {
			calls = append(calls, begin(l, func() (doclock.Lease, error) { return l.here.TryAcquire(l.bounded(), flowers, "write") }))
		}
		l.eventually("they wait behind the bound", func() bool { return l.here.BehindTheBound(1) == len(calls) })
		begun := time.Now()
		closed := begin(l, func() (any, error) { return nil, l.here.Close(l.bounded()) })
		for _, call := range calls {
			l.want(errOf(call.wait()), doclock.ErrClosed)
		}
		if took := time.Since(begun); took > time.Second {
			l.Errorf("they were woken after %v", took)
		}
		l.let(replies)
		ok(l, errOf(closed.wait()))
		l.wantEntries()
	}, doclock.AttemptTimeout(time.Minute)) // so that none of the commands ends
}

// A waiter whose caller has left stays in the wait queue until its command has
// ended and the entry of that command is removed. The next waiter doesn't ask in
// the meantime.
func TestAWaiterWhoseCommandIsOutStaysInTheQueue(t *testing.T) {
	t.Parallel()
	lately(t, relations.Fair(), func(l *pair) {
		holder := l.try(l.there, "read")
		arrival := l.giveUp(l.net, func(ctx context.Context) error { return errOf(l.here.Acquire(ctx, flowers, "write")) }, doclock.ErrNotAcquired)
		removal := l.net.ArmWhere(faultnet.DelayReply, removes)
		second := acquire(l, l.bounded(), l.here, "write")
		l.queued(l.here, 1)
		if n := l.watch.Count(); n != 1 {
			l.Errorf("%d commands beside the one that is under way", n-1)
		}
		must(l, arrival.Let())
		wait(l, removal.Fired())
		if n := l.watch.Count(); n != 2 || l.here.Waiters(1) != 1 {
			l.Errorf("%d commands beside the removal", n-2)
		}
		must(l, removal.Let())
		l.release(holder)
		l.release(l.granted(second))
		l.wantEntries()
	})
}

// A confirm whose caller gave up counts no longer than its command: the entry stays.
func TestAConfirmThatIsLeftCountsNoMore(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Fair())
		p.try(l, "read", doclock.TTL(time.Hour))
		ticket := p.enqueue(l, "write")
		for range multilock.MostPerDocument {
			p.mem.Delay(1, time.Second, locktest.Acquires)
			p.want(errOf(ticket.Confirm(p.within(time.Second/2))), context.DeadlineExceeded)
			time.Sleep(time.Second)
		}
		err := errOf(ticket.Confirm(p.within(time.Second)))
		p.want(err, doclock.ErrConflict)
		p.wantNot(err, context.DeadlineExceeded)
	})
}

// What a command has entered for a caller who gave up counts until it is removed.
func TestWhatIsToBeRemovedCountsAmongTheBound(t *testing.T) {
	t.Parallel()
	lately(t, relations.Fair(), func(l *pair) {
		holder := l.try(l.there, "read")
		var replies []*faultnet.Fault
		for range multilock.MostPerDocument {
			replies = append(replies, l.giveUp(l.net, func(ctx context.Context) error {
				return errOf(l.here.Enqueue(ctx, flowers, "write"))
			}, doclock.ErrNotAcquired))
		}
		removal := l.net.ArmWhere(faultnet.DelayReply, removes)
		l.let(replies)
		wait(l, removal.Fired())
		l.wantUnsent("TryAcquire", func(ctx context.Context) error {
			return errOf(l.here.TryAcquire(ctx, flowers, "read"))
		})
		must(l, removal.Let())
		l.rest(l.here)
		l.wantEntries(holder)
	})
}
