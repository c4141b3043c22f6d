package doclock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// age lets the entries expire as if the time had passed at the server too.
func (r *rig) age() {
	r.Helper()
	expires := bson.M{"lock.tags.write.0.expires": serverNow(r.T, r).Add(ttl/2 + engine.DefaultTolerance)}
	if _, err := r.other.UpdateMany(r.Context(), bson.M{"_id": bson.M{"$gte": 100}}, bson.M{"$set": expires}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) prune(id int, lease *doclock.Lease) {
	r.Helper()
	owner := lease.ID()
	entry := bson.M{"id": bson.Binary{Subtype: bson.TypeBinaryUUID, Data: owner[:]}}
	result, err := r.other.UpdateOne(r.Context(), bson.M{"_id": id}, bson.M{"$pull": bson.M{"lock.tags." + lease.Tag(): entry}})
	if err != nil || result.ModifiedCount != 1 {
		r.Fatal(result, err)
	}
}

// Rule 20: the command counts who was matched. One that wasn't must be found,
// and no other may be taken for it.
func TestRule20ALossInABatch(t *testing.T) {
	for name, lose := range map[string]func(*rig, *doclock.Lease){
		"pruned": func(r *rig, l *doclock.Lease) { r.prune(101, l) },
		"another fencing token, as after a late duplicate of the acquire": func(r *rig, l *doclock.Lease) {
			if _, err := r.other.UpdateOne(r.Context(), bson.M{"_id": 101}, bson.M{"$inc": bson.M{"lock.tags.write.0.fence": 1}}); err != nil {
				r.Fatal(err)
			}
		},
		"document deleted": func(r *rig, l *doclock.Lease) {
			if _, err := r.other.DeleteOne(r.Context(), bson.M{"_id": 101}); err != nil {
				r.Fatal(err)
			}
		},
	} {
		mongotest.RunVirtual(t, name, func(t *testing.T) {
			r := newRig(t)
			leases := r.many(3)
			lose(r, leases[1])
			kept := r.due(leases...)
			within(t, kept[1].Done(), "the loss")
			if cause := context.Cause(kept[1]); !errors.Is(cause, doclock.ErrLost) {
				t.Errorf("cause %v", cause)
			}
			fixture.Eventually(t, "the others", fresh(leases[0], leases[2]))
			if kept[0].Err() != nil || kept[2].Err() != nil {
				t.Errorf("the others: %v, %v", context.Cause(kept[0]), context.Cause(kept[2]))
			}
			r.wantSent("update", "find")
		})
	}
}

func TestRule20EverythingIsLost(t *testing.T) {
	r := newRig(t)
	leases := r.many(3)
	if err := r.other.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, kept := range r.due(leases...) {
		within(t, kept.Done(), "the loss")
	}
}

func TestRule20TwoLeasesOnOneDocument(t *testing.T) {
	mongotest.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		one, two := r.take(1, "read"), r.take(1, "read")
		r.sent.forget()
		kept := r.due(one, two)
		fixture.Eventually(t, "both", fresh(one, two))
		r.wantSent("update")
		r.prune(1, two)
		r.clock.pass(ttl / 3)
		within(t, kept[1].Done(), "the loss")
		fixture.Eventually(t, "the other", fresh(one))
		if kept[0].Err() != nil {
			t.Errorf("the other: %v", context.Cause(kept[0]))
		}
	})
}

// Rule 20, and 4: the validity is anchored at the send of the command that
// matched all, or of the read.
func TestRule20AnchoredAtTheSend(t *testing.T) {
	for _, command := range []string{"update", "find"} {
		t.Run(command, func(t *testing.T) {
			r := newRig(t)
			leases := r.many(3)
			if command == "find" {
				r.prune(102, leases[2])
			}
			reply := r.net.Arm(faultnet.DelayReply, command)
			r.due(leases...)
			within(t, reply.Fired(), command)
			r.clock.pass(ttl / 4)
			if err := reply.Let(); err != nil {
				t.Fatal(err)
			}
			fixture.Eventually(t, "the answer", fresh(leases[0], leases[1]))
			for _, l := range leases[:2] {
				if got, most := l.Remaining(), ttl*3/4-time.Millisecond; got > most {
					t.Errorf("Remaining = %v, want at most %v", got, most)
				}
			}
		})
	}
}

// The read shows what the server keeps, and that is the tolerance longer than
// the validity.
func TestRule20AReadIsValidForTheTTL(t *testing.T) {
	mongotest.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		leases := r.many(2)
		r.net.Arm(faultnet.LoseReply, "update")
		if _, err := r.other.UpdateMany(t.Context(), bson.M{"_id": bson.M{"$gte": 100}}, bson.M{"$set": bson.M{
			"lock.tags.write.0.expires": serverNow(t, r).Add(time.Hour)}}); err != nil {
			t.Fatal(err)
		}
		r.due(leases...)
		fixture.Eventually(t, "a renewal", fresh(leases...))
		for _, l := range leases {
			if got, most := l.Remaining(), ttl-time.Millisecond; got > most {
				t.Errorf("Remaining = %v, want at most %v", got, most)
			}
		}
		r.wantSent("update", "find")
	})
}

func TestRule20UnknownOutcomes(t *testing.T) {
	for _, c := range []struct {
		name string
		arm  func(*faultnet.Net)
		sent []string
	}{
		{"the reply is lost", func(n *faultnet.Net) { n.Arm(faultnet.LoseReply, "update") }, []string{"update", "find"}},
		{"the request is lost", func(n *faultnet.Net) { n.Arm(faultnet.LoseRequest, "update") }, []string{"update", "find", "update"}},
	} {
		mongotest.RunVirtual(t, c.name, func(t *testing.T) {
			r := newRig(t)
			leases := r.many(3)
			r.age()
			c.arm(r.net)
			kept := r.due(leases...)
			// What failed is tried again after a pause, on the hand-turned clock.
			fixture.Eventually(t, "the renewals", func() bool {
				if fresh(leases...)() {
					return true
				}
				r.clock.pass(time.Millisecond)
				return false
			})
			r.wantSent(c.sent...)
			for _, k := range kept {
				if k.Err() != nil {
					t.Errorf("taken for a loss: %v", context.Cause(k))
				}
			}
			r.sent.forget()
			r.clock.pass(ttl / 3)
			fixture.Eventually(t, "the next renewals", fresh(leases...))
			r.wantSent("update")
		})
	}
}

// A batch of unknown outcome, and one entry that is not there: that one goes
// alone, and learns it.
func TestRule20ALossInABatchOfUnknownOutcome(t *testing.T) {
	mongotest.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		leases := r.many(3)
		r.prune(101, leases[1])
		r.net.Arm(faultnet.LoseReply, "update")
		kept := r.due(leases...)
		fixture.Eventually(t, "the loss", func() bool {
			r.clock.pass(time.Millisecond)
			return kept[1].Err() != nil
		})
		if cause := context.Cause(kept[1]); !errors.Is(cause, doclock.ErrLost) || leases[1].Err() == nil {
			t.Errorf("cause %v", cause)
		}
		r.wantSent("update", "find", "findAndModify")
	})
}
