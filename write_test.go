package doclock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var increment = bson.M{"$inc": bson.M{"count": 1}}

// writes are the two guarded writes; most promises hold for both.
var writes = map[string]func(doclock.Lease, context.Context, any) error{
	"Update":           func(l doclock.Lease, ctx context.Context, u any) error { return l.Update(ctx, u) },
	"UpdateAndRelease": func(l doclock.Lease, ctx context.Context, u any) error { return l.UpdateAndRelease(ctx, u) },
}

func eachWrite(t *testing.T, run func(*testing.T, string, func(*testing.T)) bool, f func(*rig, doclock.Lease, func(context.Context, any) error)) {
	t.Helper()
	for name, write := range writes {
		run(t, name, func(t *testing.T) {
			r := newRig(t)
			lease := r.acquire()
			f(r, lease, func(ctx context.Context, u any) error { return write(lease, ctx, u) })
		})
	}
}

// An update that cannot be is refused before anything is sent, and the lease stands. internal/engine has the kinds.
func TestInvalidUpdates(t *testing.T) {
	eachWrite(t, (*testing.T).Run, func(r *rig, lease doclock.Lease, write func(context.Context, any) error) {
		before := r.stored()
		for name, update := range map[string]any{
			"nil":              nil,
			"replacement":      bson.M{"count": 1},
			"the lock":         bson.M{"$unset": bson.M{"lock": ""}},
			"pipeline sets it": bson.A{bson.M{"$set": bson.M{"lock": 1}}},
		} {
			if err := write(r.Context(), update); !errors.Is(err, doclock.ErrInvalidArgument) {
				r.Errorf("%s: %v", name, err)
			}
		}
		if err := lease.Update(r.Context(), increment, options.UpdateOne().SetUpsert(true)); !errors.Is(err, doclock.ErrInvalidArgument) {
			r.Errorf("upsert: %v", err)
		}
		if n := r.sent.Count(); n != 0 {
			r.Errorf("sent %v", r.sent.Take())
		}
		if after := r.stored(); after.Count != before.Count || after.Lock.Fence != before.Lock.Fence {
			r.Errorf("stored %+v, was %+v", after, before)
		}
		if err := lease.Err(); err != nil { // it stands
			r.Errorf("the lease: %v", err)
		}
	})
}

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
		r.clock.Pass(ttl)
		if err := l.Update(r.Context(), increment); !errors.Is(err, doclock.ErrLost) {
			r.Fatalf("Update = %v", err)
		}
		r.clock.Pass(-ttl) // else a release would not say nil anyway
	},
	"a batch": func(r *rig, l doclock.Lease) {
		within(r.T, r.withAnother(l).Done(), "the loss")
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
	eachWrite(t, mongotest.RunVirtual, func(r *rig, lease doclock.Lease, write func(context.Context, any) error) {
		r.net.Arm(faultnet.LoseReply, "findAndModify")
		r.onNext("findAndModify", func() { r.others(12) })
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

func (r *rig) wantDocument(there bool) {
	r.Helper()
	err := r.other.FindOne(r.Context(), bson.M{"_id": 1}).Err()
	if errors.Is(err, mongo.ErrNoDocuments) == there {
		r.Errorf("the document is there: %v, want %v", !there, there)
	}
}

// The document goes, the lease ends as released, and the release says so, with
// one command in all.
func TestDeleteEndsTheLease(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	fault := r.net.Arm(faultnet.DelayReply, "findAndModify")
	deleted := make(chan error, 1)
	go func() { deleted <- lease.Delete(t.Context()) }()
	within(t, fault.Fired(), "the delete")
	if err := lease.Err(); !errors.Is(err, doclock.ErrReleased) {
		t.Errorf("Err while the delete is under way: %v", err)
	}
	if err := fault.Let(); err != nil {
		t.Fatal(err)
	}
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	r.wantDocument(false)
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	if err := lease.Delete(t.Context()); !errors.Is(err, doclock.ErrReleased) {
		t.Errorf("a second Delete: %v", err)
	}
	if n := r.sent.Count(); n != 1 {
		t.Errorf("%d commands: %v", n, r.sent.Take())
	}
}

// goneServer is a rig whose server was reached, and refuses connections now, as
// the library knows by an acquire that failed.
func goneServer(t *testing.T) (*rig, doclock.Lease) {
	r := newRig(t, realTime, doclock.TTL(time.Minute))
	lease := r.acquire()
	r.net.Down(true)
	t.Cleanup(func() { r.net.Down(false) })
	if _, err := r.locks.TryAcquire(t.Context(), bson.M{"_id": 2}, "write"); !errors.Is(err, doclock.ErrNotAcquired) {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // the attempt may end a moment later than its caller's wait
	return r, lease
}

// wantUnsent demands an error that says why nothing was sent, and nothing else.
func wantUnsent(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, doclock.ErrOutcomeUnknown) || errors.Is(err, doclock.ErrLost) {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, word := range []string{"server selection error", "connection refused", "locktest:27017"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s doesn't say %q: %v", what, word, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%s takes several lines: %q", what, err)
	}
}

// What never left was not executed: a write that could not be sent is none of
// unknown outcome, and the error says why. None comes late, though the driver
// may know a server when the caller gives up.
func TestWriteThatCantBeSent(t *testing.T) {
	for name, write := range map[string]func(doclock.Lease, context.Context) error{
		"Update": func(l doclock.Lease, ctx context.Context) error {
			return l.Update(ctx, bson.M{"$inc": bson.M{"count": 1}})
		},
		"UpdateAndRelease": func(l doclock.Lease, ctx context.Context) error {
			return l.UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"count": 1}})
		},
		"Delete": (doclock.Lease).Delete,
		"Renew":  (doclock.Lease).Renew,
	} {
		mongotest.RunVirtual(t, name, func(t *testing.T) {
			r, lease := goneServer(t)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			wantUnsent(t, name, write(lease, ctx))

			ctx, giveUp := context.WithCancel(t.Context())
			written := make(chan error, 1)
			go func() { written <- write(lease, ctx) }()
			time.Sleep(200 * time.Millisecond)
			r.net.Down(false)
			if err := r.doc.FindOne(t.Context(), bson.M{}).Err(); err != nil {
				t.Error(err)
			}
			giveUp()
			if err := <-written; !errors.Is(err, context.Canceled) || errors.Is(err, doclock.ErrOutcomeUnknown) {
				t.Error(err)
			}
			time.Sleep(time.Second)
			_ = lease.Release(t.Context()) // after it nothing of the lease's can come
			fixture.Eventually(t, "the document is free", func() bool { return len(r.stored().Lock.Tags["write"]) == 0 })
			if n := r.stored().Count; n != 0 {
				t.Errorf("it was written %d times", n)
			}
		})
	}
}
