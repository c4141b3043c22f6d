package doclock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func keepAliveRig(t *testing.T) (*rig, *doclock.Lease) {
	r := newRig(t, realTime, doclock.TTL(3*time.Second), doclock.AttemptTimeout(10*time.Second))
	return r, r.acquire()
}

func TestKeepAliveTellsTheLoss(t *testing.T) {
	mongotest.Virtual(t, func(t *testing.T) {
		r, lease := keepAliveRig(t)
		kept := lease.KeepAlive(t.Context())
		r.change(bson.M{"$unset": bson.M{"lock": ""}})
		within(t, kept.Done(), "the loss")
		if cause := context.Cause(kept); !errors.Is(cause, doclock.ErrLost) {
			t.Errorf("cause %v", cause)
		}
	})
}

// The network stands still in the middle of a renewal, which may take a minute:
// the loss is known when the lease ends.
func TestKeepAliveTellsTheEndInsideARenewal(t *testing.T) {
	mongotest.Virtual(t, func(t *testing.T) {
		r := newRig(t, realTime, short(500*time.Millisecond), doclock.AttemptTimeout(time.Minute))
		lease := r.acquire()
		for range 50 {
			r.net.Arm(faultnet.Stall, "findAndModify")
		}
		t.Cleanup(r.net.Disarm)
		kept := lease.KeepAlive(t.Context())
		within(t, kept.Done(), "the end of the lease")
		if cause := context.Cause(kept); !errors.Is(cause, doclock.ErrLost) {
			t.Errorf("cause %v", cause)
		}
		if lease.Remaining() != 0 {
			t.Errorf("Remaining = %v", lease.Remaining())
		}
		r.net.Disarm()
	})
}
