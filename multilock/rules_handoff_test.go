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
