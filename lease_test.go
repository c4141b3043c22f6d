package doclock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// ttl is long enough for a machine that is busy.
const ttl = 30 * time.Second

func TestValidityEndsWithTheTTL(t *testing.T) {
	for _, c := range []struct {
		name       string
		mono, wall time.Duration
		over       bool
	}{
		{"just before", ttl - 2*time.Millisecond, ttl - 2*time.Millisecond, false},
		{"at the end, less the server's resolution", ttl - time.Millisecond, 0, true},
		{"machine suspended: only the wall clock moved", 0, ttl, true},
		{"wall clock set back: the monotonic one decides", ttl, -time.Hour, true},
		{"wall clock set back, time left", ttl / 2, -time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			lease := r.acquire()
			if err := lease.Err(); err != nil {
				t.Fatalf("a fresh lease: %v", err)
			}
			if got, want := lease.Remaining(), ttl-time.Millisecond; got != want {
				t.Errorf("Remaining of a fresh lease = %v, want %v", got, want)
			}
			r.clock.Turn(c.mono, c.wall)
			over := errors.Is(lease.Err(), doclock.ErrLost)
			if over != c.over {
				t.Errorf("after mono %v, wall %v: Err = %v", c.mono, c.wall, lease.Err())
			}
			if over != (lease.Remaining() == 0) {
				t.Errorf("Err = %v, but Remaining = %v", lease.Err(), lease.Remaining())
			}
			select {
			case <-lease.Done():
				if !over {
					t.Error("Done is closed")
				}
			default:
				if over {
					t.Error("Done is open")
				}
			}
			if n := r.sent.Count(); n != 0 {
				t.Errorf("looking at a lease sent %d commands", n)
			}
		})
	}
}

// The server keeps the entry for TTL + tolerance from its own now on.
func TestServerKeepsTheEntryLonger(t *testing.T) {
	r := newRig(t, doclock.ClockTolerance(700*time.Millisecond))
	before := serverNow(t, r)
	r.acquire()
	expires := r.stored().Lock.Tags["write"][0].Expires
	after := serverNow(t, r)
	if least := before.Add(ttl + 700*time.Millisecond); expires.Before(least) {
		t.Errorf("expires %v, want at least %v", expires, least)
	}
	if most := after.Add(ttl + 700*time.Millisecond); expires.After(most) {
		t.Errorf("expires %v, want at most %v", expires, most)
	}
}

func serverNow(t *testing.T, r *rig) time.Time {
	t.Helper()
	cursor, err := r.other.Aggregate(t.Context(), mongo.Pipeline{
		{{Key: "$project", Value: bson.M{"now": "$$NOW"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var docs []struct{ Now time.Time }
	if err := cursor.All(t.Context(), &docs); err != nil {
		t.Fatal(err)
	}
	return docs[0].Now
}

// The documented exception: a replacement under the guard is applied, and erases
// the lock. Others are let in, and the holder learns it from its next command.
func TestAReplacementUnderTheGuardErasesTheLock(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	if _, err := r.other.ReplaceOne(t.Context(), lease.Guard(), bson.M{"count": 7}); err != nil {
		t.Fatal(err)
	}
	if stored := r.stored(); stored.Count != 7 || len(stored.Lock.Tags) != 0 {
		t.Errorf("it is %+v", stored)
	}
	if err := lease.Err(); err != nil {
		t.Errorf("before its next command the holder knows: %v", err)
	}
	other := r.acquire()
	if err := lease.Update(t.Context(), increment); !errors.Is(err, doclock.ErrLost) {
		t.Errorf("Update = %v", err)
	}
	if err := other.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if result, err := r.other.DeleteMany(t.Context(), other.Guard()); err != nil || result.DeletedCount != 0 || len(other.Guard()) == 0 {
		t.Errorf("the guard of a released lease: %v, %v", result, err)
	}
}

// A renewal doesn't wait for a write that is under way.
func TestRenewBesideAWrite(t *testing.T) {
	mongotest.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		lease := r.acquire()
		reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
		written := make(chan error, 1)
		go func() { written <- lease.Update(context.Background(), increment) }()
		<-reply.Fired()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := lease.Renew(ctx); err != nil {
			t.Errorf("Renew = %v", err)
		}
		if err := reply.Let(); err != nil {
			t.Fatal(err)
		}
		if err := <-written; err != nil {
			t.Errorf("Update = %v", err)
		}
	})
}

// A kept lease of the shortest TTL lives through one reset of all connections
// at the worst moment, when its renewal is on its way: the driver then selects no
// server for half a second. In one case of some 200 it takes a whole second, by the
// order in which its goroutines see the reset; so the lease has three tries.
func TestTheShortestLeaseSurvivesAReset(t *testing.T) {
	mongotest.Virtual(t, func(t *testing.T) {
		for range 3 {
			r := newRig(t, realTime, doclock.TTL(doclock.MinTTL))
			time.Sleep(time.Second) // the driver looks at a server once in 500 ms at most, and it has just done so
			lease := r.acquire()
			kept := lease.KeepAlive(t.Context())
			reset := r.net.Arm(faultnet.Stall, "findAndModify")
			within(t, reset.Fired(), "a renewal")
			r.net.Reset()
			time.Sleep(time.Minute)
			if kept.Err() == nil && lease.Err() == nil {
				return
			}
		}
		t.Error("it was lost in each of three resets")
	})
}

// What a lease prints is for people: in a format, in a log, held or over.
func TestLeaseIsReadable(t *testing.T) {
	r := newRig(t, doclock.TTL(30*time.Second))
	lease := r.acquire()
	held := fmt.Sprintf(`lease "write" on document 1, fence %d, 29.999s left`, lease.Fence())
	for _, format := range []string{"%v", "%+v", "%s"} {
		if got := fmt.Sprintf(format, lease); got != held {
			t.Errorf("%s: %s, want %s", format, got, held)
		}
	}
	logged := func() string {
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "lease", lease)
		return out.String()
	}
	if got, want := logged(), fmt.Sprintf("lease.document=1 lease.tag=write lease.fence=%d lease.left=29.999s\n", lease.Fence()); !strings.HasSuffix(got, want) {
		t.Errorf("logged %q, want it to end with %q", got, want)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(lease), ", released"; !strings.HasSuffix(got, want) {
		t.Errorf("%q doesn't end with %q", got, want)
	}
	if got, want := logged(), `lease.over=released`; !strings.Contains(got, want) {
		t.Errorf("logged %q, want %q in it", got, want)
	}
	lease = r.acquire()
	r.clock.Pass(time.Minute)
	if got, want := fmt.Sprint(lease), ", lost: not renewed"; !strings.HasSuffix(got, want) {
		t.Errorf("%q doesn't end with %q", got, want)
	}
	if got, want := logged(), `lease.over="lost: not renewed"`; !strings.Contains(got, want) {
		t.Errorf("logged %q, want %q in it", got, want)
	}
}
