package multilock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Whom a release hands the lock over to, and who asks.

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

// leaves has a waiter leave after a release has handed it the lock, and before the answer has
// come.
func (p *place) leaves(rules relations.Rules, opts ...doclock.AcquireOption) {
	p.Helper()
	coll, net := p.faulty()
	l := p.locker(coll, rules)
	holder := p.try(l, "write")
	ctx, cancel := context.WithCancel(p.Context())
	waiter := acquire(p, ctx, l, "write", opts...)
	p.queued(l, 1)
	handoff := net.Arm(faultnet.DelayReply, "findAndModify")
	released := begin(p, func() (any, error) { return nil, holder.Release(p.Context()) })
	wait(p, handoff.Fired())
	if n := len(p.entries()); n != 1 {
		p.Errorf("%d entries: it was not handed over", n)
	}
	cancel()
	p.want(errOf(waiter.wait()), context.Canceled, doclock.ErrNotAcquired)
	must(p, handoff.Let())
	ok(p, errOf(released.wait()))
	p.rest(l)
	p.wantEntries()
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

// The protocol's rules about handoffs. Each test is a trace that breaks without
// its rule. The mutants in proptest/mutants remove the rules.

// Rule 12: after a handoff of unknown outcome the successor asks by the same id.
// By another id its first entry would block it, and the document would be locked
// until that entry expires.
func TestRule12ASuccessorOfUnknownOutcomeAsksByTheSameID(t *testing.T) {
	t.Parallel()
	eachHandoff(t, func(r *relay, release func() error, adds int32) {
		fault := r.net.Arm(faultnet.LoseReply, "findAndModify")
		released := r.releasing(release)
		wait(r, fault.Fired())
		handed := r.entries("write")
		if _, err := released.wait(); err != nil {
			r.Errorf("the holder's verdict: %v", err)
		}
		lease := r.inherited()
		r.wantEntries(lease)
		if id := lease.ID(); len(handed) != 1 || string(id[:]) != string(handed[0].ID.Data) || lease.Fence() != handed[0].Fence {
			r.Errorf("the successor has %v with %d, and was handed %+v", id, lease.Fence(), handed)
		}
		if now := r.entries("write")[0]; !now.Expires.After(handed[0].Expires) {
			r.Errorf("the successor's validity counts from its own send, and the entry was not extended: %v, %v", handed[0].Expires, now.Expires)
		}
		if got := r.total(); got != 1+adds {
			r.Errorf("the total is %d", got)
		}
	})
}

// Rules 4, 13 and 17: the validity ends at the send of the handoff, and the
// successor's counts from there. Otherwise the lease would still be valid beside the
// successor's if the reply is lost. If the entry's expiry stays, the successor's time is
// the rest of the lease.
func TestRule04And13AHandoffCountsFromItsSend(t *testing.T) {
	t.Parallel()
	eachHandoff(t, func(r *relay, release func() error, _ int32) {
		reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
		released := r.releasing(release)
		wait(r, reply.Fired())
		if err := r.holder.Err(); !errors.Is(err, doclock.ErrReleased) {
			r.Errorf("the lease is valid beside its successor's: %v", err)
		}
		r.Pass(4 * time.Second)
		must(r, reply.Let())
		must(r, errOf(released.wait()))
		r.remains(r.inherited(), 4*time.Second)
	})
}

// Rule 17: a handoff by compare-and-set, with a classic update, uses the grant's
// image, and the successor inherits the rest of the lease. If too little is left
// of it, the update is sent by itself.
func TestRule17ASuccessorInheritsTheRestOfTheLease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		held, remain time.Duration
	}{
		{"much", relayTTL / 20, relayTTL / 20},
		{"little", relayTTL / 5, 0},
	} {
		virtually(t, c.name, func(p *place) {
			r := p.relay(relations.Exclusive(), "write")
			r.queue("write")
			r.Pass(c.held)
			must(p, r.holder.UpdateAndRelease(p.Context(), plusOne))
			r.remains(r.inherited(), c.remain)
			if got := r.total(); got != 2 {
				p.Errorf("the total is %d", got)
			}
		})
	}
}

// So it is if an outside writer has made the lock field foreign.
func TestAHandoffInAForeignFieldIsARelease(t *testing.T) {
	t.Parallel()
	eachHandoff(t, func(r *relay, release func() error, adds int32) {
		r.Change(bson.M{"$set": bson.M{"lock.tags.read": "tampered"}})
		ok(r, release())
		r.want(errOf(r.successor.wait()), doclock.ErrForeignLock)
		if got := r.total(); got != 1+adds {
			r.Errorf("the total is %d", got)
		}
		r.Change(bson.M{"$unset": bson.M{"lock.tags.read": 1}})
		r.rest(r.locks)
		r.wantEntries()
	})
}

// The protocol's rules about successors that can't be granted, that gave up, and
// that wait in the document.

// Rule 15: a successor that can't be granted leaves no entry in the document, and
// the lock is released all the same.
func TestRule15ASuccessorThatIsRefusedIsNoLoss(t *testing.T) {
	virtual(t, func(p *place) {
		r := p.relay(relations.ReadPreferring(), "read")
		r.queue("write")
		other := r.try(r.locker(r.coll, relations.ReadPreferring()), "read") // the wait queue has not seen it
		if err := r.holder.Release(p.Context()); err != nil {
			p.Errorf("the holder's verdict: %v", err)
		}
		r.wantEntries(other)
		r.release(other)
		r.wantEntries(r.inherited())
	})
}

// Rule 15: a successor that has given up leaves no entry.
func TestRule15ASuccessorThatGaveUpLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for name, losesFirst := range map[string]bool{"before the answer": false, "with an unknown outcome": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachHandoff(t, func(r *relay, release func() error, _ int32) {
				if losesFirst {
					r.net.Arm(faultnet.LoseReply, "findAndModify")
				}
				reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
				released := r.releasing(release)
				wait(r, reply.Fired())
				r.cancel()
				if _, err := r.successor.wait(); !errors.Is(err, context.Canceled) {
					r.Errorf("the successor that gave up: %v", err)
				}
				synctest.Wait() // its goroutine knows, before the answer comes
				if n := len(r.entries("write")); n != 1 {
					r.Fatalf("%d entries: it was not handed over", n)
				}
				must(r, reply.Let())
				must(r, errOf(released.wait()))
				r.rest(r.locks)
				r.wantEntries()
			})
		})
	}
}

// Rule 16: a successor that waits in the document is confirmed by the release's
// command. Its id and its `seq` stay.
func TestRule16AWaitingSuccessorIsHandedTheLock(t *testing.T) {
	virtual(t, func(p *place) {
		r := p.relay(relations.Fair(), "write")
		r.queue("write")
		var place entry
		for _, e := range r.entries("write") {
			if !e.held() {
				place = e
			}
		}
		asked := r.net.ArmWhere(faultnet.LoseRequest, func(_ string, body bson.Raw) bool {
			_, err := body.LookupErr("update", "0") // a confirm, or an acquire: one stage
			_, more := body.LookupErr("update", "1")
			return err == nil && more != nil
		})
		r.release(r.holder)
		lease := r.inherited()
		select {
		case <-asked.Fired():
			p.Error("the successor had to ask")
		default:
		}
		r.wantEntries(lease)
		if e := r.entries("write")[0]; string(e.ID.Data) != string(place.ID.Data) || e.Seq != place.Seq || e.Fence != lease.Fence() {
			p.Errorf("it waited as %+v, and holds as %+v", place, e)
		}
	})
}

// Rules 7 and 16: the successor's entry was pruned, and a late duplicate of its
// arrival has brought the id back. The handoff grants that id. This is not the
// place that the waiter had: it is released, and the waiter waits again.
func TestRule16ASuccessorThatALateDuplicateBroughtBack(t *testing.T) {
	virtual(t, func(p *place) {
		r := p.relay(relations.WritePreferring(), "read", doclock.AttemptTimeout(time.Second))
		late := r.net.Arm(faultnet.Repeat, "findAndModify")
		r.queue("write")
		id := r.waiting("write")
		r.Change(bson.M{"$pull": bson.M{"lock.tags.write": bson.M{"id": bson.Binary{Subtype: 4, Data: []byte(id)}}}})
		must(p, late.Let())
		if again := r.waiting("write"); again != id {
			p.Fatal("the id was not brought back")
		}
		removal := r.net.ArmWhere(faultnet.Stall, removes) // so that the waiter meets its own old entry
		r.release(r.holder)
		wait(p, removal.Fired())
		lease := r.inherited()
		if now := lease.ID(); string(now[:]) == id {
			p.Error("its lease is of another arrival's entry")
		}
		r.wantEntries(lease)
	})
}

// A hand-over that was not sent leaves nothing to the clean-up: a classic update hands over to no entry that waits.
func TestAHandoffThatIsNotSentOwesNothing(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair())
		holder := p.try(l, "write")
		next := acquire(p, p.bounded(), l, "write")
		p.waiting("write")
		p.queued(l, 1)
		must(p, holder.UpdateAndRelease(p.Context(), plusOne))
		p.release(p.granted(next))
		synctest.Wait()
		if n := l.Leftovers(); n != 0 {
			p.Errorf("%d ids are owed", n)
		}
	})
}
