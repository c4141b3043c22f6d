package multilock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

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

// The lock is released even if the server refuses the handoff.
func TestAHandoffThatIsRefusedIsARelease(t *testing.T) {
	t.Parallel()
	eachHandoff(t, func(r *relay, release func() error, adds int32) {
		r.net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
			return bson.M{"ok": 0, "code": 17419, "errmsg": "Resulting document after update is larger than 16777216"}
		})
		ok(r, release())
		r.wantEntries(r.inherited())
		if got := r.total(); got != 1+adds {
			r.Errorf("the total is %d", got)
		}
	})
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

// Rule 15: a successor that can't learn the outcome leaves no entry.
func TestRule15ASuccessorThatIsAnsweredWithAnErrorLeavesNoEntry(t *testing.T) {
	t.Parallel()
	eachHandoff(t, func(r *relay, release func() error, _ int32) {
		r.net.Arm(faultnet.LoseReply, "findAndModify")
		repeat := r.net.Arm(faultnet.DelayReply, "findAndModify")
		released := r.releasing(release)
		wait(r, repeat.Fired())
		r.Change(bson.M{"$set": bson.M{"lock.tags.read": "tampered"}})
		must(r, repeat.Let())
		_, _ = released.wait() // the verdict on an update can't be read
		r.want(errOf(r.successor.wait()), doclock.ErrForeignLock)
		r.Change(bson.M{"$unset": bson.M{"lock.tags.read": 1}})
		r.rest(r.locks)
		r.wantEntries()
	})
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

// Rule 25: HoldAtLeast is a time that the grant writes down.

const leastTolerance = 500 * time.Millisecond

// However a lease with HoldAtLeast was acquired and is released, others are kept
// out until its time and no longer.
func TestRule25OthersAreKeptOut(t *testing.T) {
	t.Parallel()
	for wayName, way := range ways {
		for name, release := range handoffs {
			t.Run(wayName+", "+name, func(t *testing.T) {
				t.Parallel()
				p, at := newPlace(t), &clock{}
				ours, theirs := p.locker(p.coll, relations.Fair(), at.drive()), p.locker(p.coll, relations.Fair(), at.drive())
				lease := way(p, ours, doclock.HoldAtLeast(time.Hour-time.Nanosecond), doclock.Owner("the first machine"))
				granted := at.Now()
				at.Pass(time.Second)
				must(p, release.release(lease))
				p.want(lease.Err(), doclock.ErrReleased)
				if n := p.total(); n != 1+release.adds {
					t.Errorf("the document's total is %d, want %d", n, 1+release.adds)
				}

				at.Pass(time.Hour - 2*time.Second)
				_, err := theirs.TryAcquire(p.bounded(), flowers, "write")
				c := p.conflict(err)
				rest := time.Second + leastTolerance
				if h := c.Holders[0]; len(c.Holders) != 1 || h.Owner != "the first machine" || h.Waiting || h.Remaining != rest || h.AtLeast != rest || c.RetryAfter != rest {
					t.Errorf("the conflict is %+v", c)
				}
				if id := c.Holders[0].ID; id == lease.ID() {
					t.Error("the remainder has the lease's id")
				}
				if text := "for at least 1.5s"; !strings.Contains(err.Error(), text) {
					t.Errorf("%q doesn't say %q", err, text)
				}
				if left := granted.Add(time.Hour + leastTolerance).Sub(at.Now()); left != rest {
					t.Errorf("%v left", left)
				}
				at.Pass(rest - time.Millisecond)
				p.want(errOf(theirs.TryAcquire(p.bounded(), flowers, "write")), doclock.ErrConflict)
				at.Pass(time.Millisecond)
				p.release(p.try(theirs, "write"))
			})
		}
	}
}

// The lease itself is valid for its TTL and no longer. A holder that crashed
// keeps others out until the time, or until its entry expires, if that is later.
func TestRule25ALeaseIsValidForItsTTL(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ least, free time.Duration }{
		"longer than the TTL":  {time.Hour, time.Hour + leastTolerance},
		"shorter than the TTL": {time.Second, calm + leastTolerance},
	} {
		virtually(t, name, func(p *place) {
			begun := time.Now()
			lease := p.try(p.locker(p.coll, relations.Exclusive()), "write", doclock.HoldAtLeast(c.least))
			<-lease.Done()
			if passed := time.Since(begun); passed != calm-time.Millisecond {
				p.Errorf("valid for %v", passed)
			}
			theirs := p.locker(p.coll, relations.Exclusive())
			time.Sleep(time.Until(begun.Add(c.free - time.Millisecond)))
			p.want(errOf(theirs.TryAcquire(p.Context(), flowers, "write")), doclock.ErrConflict)
			time.Sleep(time.Millisecond)
			p.try(theirs, "write")
			p.want(lease.Release(p.Context()), doclock.ErrLost)
		})
	}
}

// What no caller got leaves no remainder: a lease whose document can't be
// decoded, a ticket that is cancelled, and a waiter that gave up.
func TestRule25WhatNobodyHeldLeavesNothing(t *testing.T) {
	t.Parallel()
	hold := doclock.HoldAtLeast(time.Hour)
	for name, deed := range map[string]func(p *place, l locker){
		"a document that can't be decoded": func(p *place, l locker) {
			var into struct{ Name int }
			for _, acquire := range []func(context.Context, any, string, ...doclock.AcquireOption) (doclock.Lease, error){l.TryAcquire, l.Acquire} {
				p.want(errOf(acquire(p.bounded(), flowers, "write", hold, doclock.Into(&into))), doclock.ErrNotAcquired)
				p.eventually("it is released", func() bool { return len(p.entries()) == 0 })
			}
		},
		"a ticket that is cancelled": func(p *place, l locker) {
			first := p.try(l, "write")
			ticket := p.enqueue(l, "write", hold)
			p.release(first)
			ok(p, ticket.Cancel(p.bounded()))
		},
		"a waiter that gave up as it was handed the lock": func(p *place, l locker) {
			first := p.try(l, "write")
			ok(p, l.GiveUp(p.bounded(), flowers, "write", func() { p.release(first) }, hold))
		},
		"one of several that can't all be had": func(p *place, l locker) {
			beside := l.Want(doclock.ID("zzz, which is missing"), "write")
			p.want(errOf(multilock.AcquireAll(p.bounded(), l.Want(flowers, "write", hold), beside)), doclock.ErrNotAcquired, doclock.ErrNotFound)
			p.wantEntries()
		},
		"one of several, which was renewed while another was waited for": func(p *place, l locker) {
			other, others := doclock.ID("zzz"), p.locker(p.coll, relations.Fair())
			must(p, errOf(p.coll.InsertOne(p.bounded(), other)))
			holder := p.got(others.TryAcquire(p.bounded(), other, "write"))
			_, err := multilock.AcquireAll(p.bounded(), l.Want(flowers, "write", hold, doclock.TTL(time.Second)), l.Want(other, "write", doclock.MaxWait(time.Second)))
			p.want(err, doclock.ErrNotAcquired, doclock.ErrConflict)
			p.wantEntries()
			p.release(holder)
		},
	} {
		virtually(t, name, func(p *place) {
			l := p.locker(p.coll, relations.Fair())
			deed(p, l)
			p.eventually("it is removed", func() bool { return len(p.entries()) == 0 })
		})
	}
}

// A lock that may leave a remainder is handed over to no waiter. The waiter asks
// for itself, and is granted when the time is over.
func TestRule25AWaiterWaitsForTheTime(t *testing.T) {
	t.Parallel()
	for name, release := range handoffs {
		virtually(t, name, func(p *place) {
			l := p.plain(relations.Exclusive())
			begun := time.Now()
			const least = engine.DefaultTTL / 2 // so that the entry would live longer
			lease := p.try(l, "write", doclock.HoldAtLeast(least))
			waiter := acquire(p, p.Context(), l, "write")
			p.queued(l, 1)
			must(p, release.release(lease))
			p.wantEntries(p.granted(waiter))
			if waited := time.Since(begun); waited < least || waited > least+2*time.Second {
				p.Errorf("let in after %v", waited)
			}
			if e := p.entries("write")[0]; !e.Until.IsZero() {
				p.Errorf("the waiter's entry has a time: %v", e)
			}
		})
	}
}
