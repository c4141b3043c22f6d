package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
)

// A successor was refused, and a duplicate of its acquire is executed late. So
// its entry waits in the document, and neither the successor nor the holder that
// releases knows. The successor must use that place, or remove it.
func TestASuccessorThatALateAcquireHasEntered(t *testing.T) {
	t.Parallel()
	late := relations.Rules{
		"late": {"slow": {Kind: relations.Cooperative}, "fast": {Kind: relations.Assertive}},
		"slow": {},
		"fast": {},
	}
	for name, stays := range map[string]bool{"stays": true, "gives up": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, net := p.faulty()
			l := p.locker(coll, late)
			crashed := p.locker(p.coll, late, doclock.TTL(time.Second), doclock.ClockTolerance(0))
			p.try(crashed, "slow")
			fast := p.try(l, "fast")

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			duplicate := net.Arm(faultnet.Repeat, "findAndModify")
			successor := acquire(t, ctx, l, "late")
			p.queued(l, 1)
			free := p.entries("slow")[0].Expires.Add(200 * time.Millisecond) // by the successor's view, which is a little older
			p.eventually("the lock is free", func() bool { return time.Now().After(free) })
			if err := duplicate.Let(); err != nil || len(p.entries("late")) != 1 {
				t.Fatalf("the duplicate has not entered: %v", err)
			}

			handoff := net.Arm(faultnet.DelayReply, "findAndModify")
			released := begin(t, func() (struct{}, error) { return struct{}{}, fast.Release(t.Context()) })
			wait(t, handoff.Fired())
			if !stays {
				cancel()
				if _, err := successor.wait(); err == nil {
					t.Error("granted, though it gave up")
				}
			}
			if err := handoff.Let(); err != nil {
				t.Fatal(err)
			}
			if _, err := released.wait(); err != nil {
				t.Error(err)
			}
			if stays {
				p.release(p.granted(successor))
			}
			p.rest(l)
			if left := p.entries("late", "fast"); len(left) > 0 {
				t.Errorf("left behind: %+v", left)
			}
		})
	}
}
