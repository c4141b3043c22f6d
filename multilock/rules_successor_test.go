package multilock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

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
