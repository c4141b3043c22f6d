package doclock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
)

// A renewal whose answer comes after the lease's end was anchored too early to
// help: the holder learns it.
func TestRenewAnsweredAfterTheEnd(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
	renewed := make(chan error, 1)
	go func() { renewed <- lease.Renew(context.Background()) }()
	<-reply.Fired()
	r.clock.pass(ttl)
	if err := reply.Let(); err != nil {
		t.Fatal(err)
	}
	if err := <-renewed; !errors.Is(err, doclock.ErrLost) {
		t.Errorf("Renew = %v", err)
	}
	if err := lease.Err(); !errors.Is(err, doclock.ErrLost) {
		t.Errorf("Err = %v", err)
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
