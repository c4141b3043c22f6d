package doclock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func keepAliveRig(t *testing.T) (*rig, *doclock.Lease) {
	r := newRig(t, realTime, doclock.TTL(3*time.Second), doclock.AttemptTimeout(10*time.Second))
	return r, r.acquire()
}

// until waits for a condition that commands of the loop bring about.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func TestKeepAliveRenews(t *testing.T) {
	r, lease := keepAliveRig(t)
	kept := lease.KeepAlive(t.Context())
	until(t, "three renewals", func() bool { return r.sent.count() >= 3 }) // each a third of a TTL after the other
	if kept.Err() != nil || lease.Err() != nil {
		t.Fatalf("kept %v, lease %v", context.Cause(kept), lease.Err())
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	within(t, 5*time.Second, kept.Done(), "the kept context")
	if cause := context.Cause(kept); !errors.Is(cause, doclock.ErrReleased) {
		t.Errorf("cause %v", cause)
	}
}

func TestKeepAlivesShareOneLoop(t *testing.T) {
	r, lease := keepAliveRig(t)
	first, cancelFirst := context.WithCancel(t.Context())
	second, cancelSecond := context.WithCancel(t.Context())
	defer cancelSecond()
	keptFirst, keptSecond := lease.KeepAlive(first), lease.KeepAlive(second)

	begun := time.Now()
	until(t, "three renewals", func() bool { return r.sent.count() >= 3 })
	// One loop renews once in 1 s, two would do so twice.
	if passed := time.Since(begun); passed < 2500*time.Millisecond {
		t.Errorf("three renewals took %v: more than one loop", passed)
	}
	cancelFirst()
	within(t, 5*time.Second, keptFirst.Done(), "the first context")
	if cause := context.Cause(keptFirst); !errors.Is(cause, context.Canceled) {
		t.Errorf("cause %v", cause)
	}
	n := r.sent.count()
	until(t, "renewals for the second", func() bool { return r.sent.count() > n })
	if keptSecond.Err() != nil {
		t.Errorf("the second context: %v", context.Cause(keptSecond))
	}
}

// The renewals end with the last context; the lease then ends by itself.
func TestKeepAliveEndsWithItsContext(t *testing.T) {
	_, lease := keepAliveRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	kept := lease.KeepAlive(ctx)
	cancel()
	within(t, 5*time.Second, kept.Done(), "the kept context")
	within(t, 20*time.Second, lease.Done(), "the lease that nobody renews any more")
	if again := lease.KeepAlive(t.Context()); !errors.Is(context.Cause(again), doclock.ErrLost) {
		t.Errorf("kept alive after the end: %v", context.Cause(again))
	}
}

func TestKeepAliveCanBeTakenUpAgain(t *testing.T) {
	r, lease := keepAliveRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	lease.KeepAlive(ctx)
	cancel()
	kept := lease.KeepAlive(t.Context())
	until(t, "renewals", func() bool { return r.sent.count() >= 2 })
	if kept.Err() != nil {
		t.Errorf("kept: %v", context.Cause(kept))
	}
}

func TestKeepAliveTellsTheLoss(t *testing.T) {
	r, lease := keepAliveRig(t)
	kept := lease.KeepAlive(t.Context())
	r.change(bson.M{"$unset": bson.M{"lock": ""}})
	within(t, 5*time.Second, kept.Done(), "the loss")
	if cause := context.Cause(kept); !errors.Is(cause, doclock.ErrLost) {
		t.Errorf("cause %v", cause)
	}
}

// The network stands still in the middle of a renewal, which may take a minute:
// the loss is told when the lease ends.
func TestKeepAliveTellsTheEndInsideARenewal(t *testing.T) {
	r := newRig(t, realTime, short(500*time.Millisecond), doclock.AttemptTimeout(time.Minute))
	lease := r.acquire()
	for range 50 {
		r.net.Arm(faultnet.Stall, "findAndModify")
	}
	t.Cleanup(r.net.Disarm)
	kept := lease.KeepAlive(t.Context())
	within(t, 20*time.Second, kept.Done(), "the end of the lease")
	if cause := context.Cause(kept); !errors.Is(cause, doclock.ErrLost) {
		t.Errorf("cause %v", cause)
	}
	if lease.Remaining() != 0 {
		t.Errorf("Remaining = %v", lease.Remaining())
	}
	r.net.Disarm()
}

func TestKeepAliveSurvivesWhatPasses(t *testing.T) {
	r := newRig(t, realTime, doclock.TTL(4*time.Second), doclock.AttemptTimeout(10*time.Second))
	lease := r.acquire()
	kept := lease.KeepAlive(t.Context())
	for _, kind := range []faultnet.Kind{faultnet.LoseRequest, faultnet.LoseReply} {
		fault := r.net.Arm(kind, "findAndModify")
		within(t, 20*time.Second, fault.Fired(), kind.String())
		n := r.sent.count()
		until(t, "a renewal after it", func() bool { return r.sent.count() > n })
	}
	refused := r.net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
		return bson.M{"ok": 0, "code": 13, "errmsg": "not authorized"}
	})
	within(t, 20*time.Second, refused.Fired(), "a refusal")
	n := r.sent.count()
	until(t, "a renewal after it", func() bool { return r.sent.count() > n })
	if kept.Err() != nil {
		t.Errorf("taken for a loss: %v", context.Cause(kept))
	}
}
