package doclock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// losses are the ways in which the server says that a lease is lost.
var losses = map[string]func(*rig, doclock.Lease){
	"a renewal": func(r *rig, l doclock.Lease) {
		if err := l.Renew(r.Context()); !errors.Is(err, doclock.ErrLost) {
			r.Fatalf("Renew = %v", err)
		}
	},
	"a write": func(r *rig, l doclock.Lease) {
		if err := l.Update(r.Context(), increment); !errors.Is(err, doclock.ErrLost) {
			r.Fatalf("Update = %v", err)
		}
	},
	"a write of unknown outcome": func(r *rig, l doclock.Lease) {
		r.net.Arm(faultnet.LoseRequest, "findAndModify")
		if err := l.Update(r.Context(), increment); !errors.Is(err, doclock.ErrOutcomeUnknown) {
			r.Fatalf("Update = %v", err)
		}
	},
	"a write after the local end": func(r *rig, l doclock.Lease) {
		r.clock.pass(ttl)
		if err := l.Update(r.Context(), increment); !errors.Is(err, doclock.ErrLost) {
			r.Fatalf("Update = %v", err)
		}
		r.clock.pass(-ttl) // else a release would not say nil anyway
	},
	"a batch": func(r *rig, l doclock.Lease) {
		kept := r.due(append(r.many(1), l)...)
		within(r.T, kept[1].Done(), "the loss")
		r.wantSent("update", "find")
	},
}

// What the server has said once is remembered: a lease that it declared lost
// is not released well because the first request of the release went astray.
func TestAKnownLossIsRemembered(t *testing.T) {
	for known, learn := range losses {
		for name, give := range map[string]func(*rig, doclock.Lease) error{
			"Release":          func(r *rig, l doclock.Lease) error { return l.Release(r.Context()) },
			"UpdateAndRelease": func(r *rig, l doclock.Lease) error { return l.UpdateAndRelease(r.Context(), increment) },
			"Update":           func(r *rig, l doclock.Lease) error { return l.Update(r.Context(), increment) },
		} {
			mongotest.RunVirtual(t, known+"/"+name, func(t *testing.T) {
				r := newRig(t)
				lease := r.acquire()
				other := r.takeOver()
				learn(r, lease)
				astray := r.net.Arm(faultnet.LoseRequest, "findAndModify")
				for range 2 {
					if err := give(r, lease); !errors.Is(err, doclock.ErrLost) && !errors.Is(err, doclock.ErrReleased) || errors.Is(err, doclock.ErrOutcomeUnknown) {
						t.Errorf("%s = %v", name, err)
					}
				}
				select {
				case <-astray.Fired():
					if name == "Update" {
						t.Error("a write was sent for a lease that is known to be lost")
					}
				default:
					if name != "Update" {
						t.Error("no release was sent: a late duplicate's entry would stay")
					}
				}
				if err := lease.Release(t.Context()); !errors.Is(err, doclock.ErrLost) {
					t.Errorf("Release = %v", err)
				}
				if entries := r.stored().Lock.Tags["write"]; len(entries) != 1 || entries[0].Fence != other.Fence() {
					t.Errorf("the new holder's entry: %v", entries)
				}
			})
		}
	}
}

// Of a write the caller learns one thing: it was applied, it was not, or
// nobody knows. That the lease is over as well says Err.
func TestAWriteHasOneVerdict(t *testing.T) {
	finish := func(r *rig, n int) {
		for range n {
			other := r.takeOver()
			if err := other.UpdateAndRelease(context.Background(), bson.M{"$set": bson.M{"other": 1}}); err != nil {
				r.Error(err)
			}
		}
	}
	eachWrite(t, mongotest.RunVirtual, func(r *rig, lease doclock.Lease, write func(context.Context, any) error) {
		r.net.Arm(faultnet.LoseReply, "findAndModify")
		r.onNext("findAndModify", func() { finish(r, 12) })
		err := write(r.Context(), increment)
		if !errors.Is(err, doclock.ErrOutcomeUnknown) || errors.Is(err, doclock.ErrLost) {
			r.Errorf("write = %v", err)
		}
		if lease.Err() == nil {
			r.Error("the lease is not over")
		}
		if got := r.stored().Count; got != 1 { // it was applied
			r.Errorf("count = %d", got)
		}
	})
}
