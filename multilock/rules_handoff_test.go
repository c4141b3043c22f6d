package multilock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The protocol's rules about handing over, each by the trace that breaks
// without it. What takes a rule out is in proptest/mutants.

// Rule 12, as it is here: after a handoff of unknown outcome the heir asks by
// the same id. Under another one its first entry would keep it out, and the
// document would be locked to everybody until that expires.
func TestRule12AnHeirOfUnknownOutcomeAsksByTheSameID(t *testing.T) {
	t.Parallel()
	eachGiving(t, func(r *relay, give func() error, adds int32) {
		fault := r.net.Arm(faultnet.LoseReply, "findAndModify")
		given := r.giving(give)
		wait(r, fault.Fired())
		handed := r.entries("write")
		if _, err := given.wait(); err != nil {
			r.Errorf("the giver's verdict: %v", err)
		}
		lease := r.inherited()
		r.wantEntries(lease)
		if id := lease.ID(); len(handed) != 1 || string(id[:]) != string(handed[0].ID.Data) || lease.Fence() != handed[0].Fence {
			r.Errorf("the heir has %v with %d, and was handed %+v", id, lease.Fence(), handed)
		}
		if now := r.entries("write")[0]; !now.Expires.After(handed[0].Expires) {
			r.Errorf("the heir believes from its own send on, and the entry was not extended: %v, %v", handed[0].Expires, now.Expires)
		}
		if got := r.total(); got != 1+adds {
			r.Errorf("the total is %d", got)
		}
	})
}

// The same where the request was lost: the next attempt hands over. And where
// it comes late: it finds nothing to do.
func TestRule12AHandoffIsRepeated(t *testing.T) {
	t.Parallel()
	for _, cut := range []faultnet.Kind{faultnet.LoseRequest, faultnet.Hold} {
		t.Run(cut.String(), func(t *testing.T) {
			t.Parallel()
			eachGiving(t, func(r *relay, give func() error, adds int32) {
				fault := r.net.Arm(cut, "findAndModify")
				if err := give(); err != nil {
					r.Errorf("the giver's verdict: %v", err)
				}
				lease := r.inherited()
				before := r.entries("write")
				if err := fault.Let(); err != nil {
					r.Fatal(err)
				}
				r.wantEntries(lease)
				if after := r.entries("write"); len(before) != 1 || len(after) != 1 || !after[0].Expires.Equal(before[0].Expires) || after[0].Fence != lease.Fence() {
					r.Errorf("the entries were %+v, and are %+v", before, after)
				}
				if got := r.total(); got != 1+adds {
					r.Errorf("the total is %d", got)
				}
				r.release(lease)
				r.wantEntries()
			})
		})
	}
}

// Rules 4 and 17: the heir's time counts from the send of the handoff, or is
// what the lease had where the entry's expiry stays.
func TestRule04AnHeirIsAnchoredAtTheSend(t *testing.T) {
	t.Parallel()
	eachGiving(t, func(r *relay, give func() error, _ int32) {
		reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
		given := r.giving(give)
		wait(r, reply.Fired())
		r.pass(4 * time.Second)
		if err := reply.Let(); err != nil {
			r.Fatal(err)
		}
		if _, err := given.wait(); err != nil {
			r.Fatal(err)
		}
		r.remains(r.inherited(), 4*time.Second)
	})
}

// Rule 13: belief ends at the handoff's send. Without it: handed over, the
// reply lost, still believed beside the heir.
func TestRule13BeliefEndsAtTheHandoffsSend(t *testing.T) {
	t.Parallel()
	eachGiving(t, func(r *relay, give func() error, _ int32) {
		reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
		given := r.giving(give)
		wait(r, reply.Fired())
		if err := r.holder.Err(); !errors.Is(err, doclock.ErrReleased) {
			r.Errorf("the giver believes beside its heir: %v", err)
		}
		if err := reply.Let(); err != nil {
			r.Fatal(err)
		}
		if _, err := given.wait(); err != nil {
			r.Fatal(err)
		}
		r.inherited()
	})
}

// Rule 17: an update rides on what the grant's image showed, and the heir
// inherits what is left of the lease; with too little left, it does not.
func TestRule17AnHeirInheritsWhatIsLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		held, remain time.Duration
	}{
		{"much", relayTTL / 20, relayTTL / 20},
		{"little", relayTTL / 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRelay(t, relations.Exclusive(), "write")
			r.queue("write")
			r.pass(c.held)
			if err := r.holder.UpdateAndRelease(t.Context(), plusOne); err != nil {
				t.Fatal(err)
			}
			r.remains(r.inherited(), c.remain)
			if got := r.total(); got != 2 {
				t.Errorf("the total is %d", got)
			}
		})
	}
}

// Rule 17: the handoff is on its way, the lease has become too old for another
// one, and the update goes by itself. The late handoff applies nothing.
func TestRule17TheUpdateGoesByItselfInTheEnd(t *testing.T) {
	t.Parallel()
	r := newRelay(t, relations.Exclusive(), "write")
	r.queue("write")
	late := r.net.ArmWhere(faultnet.Hold, func(name string, _ bson.Raw) bool {
		r.pass(relayTTL / 5)
		return true
	})
	if err := r.holder.UpdateAndRelease(t.Context(), plusOne); err != nil {
		t.Fatal(err)
	}
	lease := r.inherited()
	r.release(lease)
	if err := late.Let(); err != nil {
		t.Fatal(err)
	}
	r.wantEntries()
	if got := r.total(); got != 2 {
		t.Errorf("the total is %d", got)
	}
}

// The lock is released all the same where the server refuses the handoff, and
// where somebody has spoilt the rest of the lock field.
func TestAHandoffThatIsRefusedIsARelease(t *testing.T) {
	t.Parallel()
	t.Run("by the server", func(t *testing.T) {
		t.Parallel()
		eachGiving(t, func(r *relay, give func() error, adds int32) {
			r.net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
				return bson.M{"ok": 0, "code": 17419, "errmsg": "Resulting document after update is larger than 16777216"}
			})
			if err := give(); err != nil {
				r.Errorf("the giver's verdict: %v", err)
			}
			lease := r.inherited()
			r.wantEntries(lease)
			if got := r.total(); got != 1+adds {
				r.Errorf("the total is %d", got)
			}
		})
	})
	t.Run("by a foreign field", func(t *testing.T) {
		t.Parallel()
		eachGiving(t, func(r *relay, give func() error, adds int32) {
			r.change(bson.M{"$set": bson.M{"lock.tags.read": "spoilt"}})
			if err := give(); err != nil {
				r.Errorf("the giver's verdict: %v", err)
			}
			_, err := r.heir.wait()
			r.want(err, doclock.ErrForeignLock)
			if got := r.total(); got != 1+adds {
				r.Errorf("the total is %d", got)
			}
			r.change(bson.M{"$unset": bson.M{"lock.tags.read": 1}})
			r.rest(r.locks)
			r.wantEntries()
		})
	})
}

// A successor's `since` is its own arrival, by the server's clock, however the
// lock was handed over: people see who holds a lock since when.
func TestASuccessorsSinceIsItsOwn(t *testing.T) {
	t.Parallel()
	eachGiving(t, func(r *relay, give func() error, _ int32) {
		const passed = 50 * time.Millisecond
		before := r.entries("write")[0].Since
		time.Sleep(passed)
		if err := give(); err != nil {
			r.Fatal(err)
		}
		r.inherited()
		if since := r.entries("write")[0].Since; since.Sub(before) < passed {
			r.Errorf("the successor is there since %v after the giver came, and %v had passed", since.Sub(before), passed)
		}
	})
}
