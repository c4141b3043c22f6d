package multilock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The joint context ends with the first loss. The others are kept, and every
// release happens.
func TestOneLossEndsTheJointContext(t *testing.T) {
	t.Parallel()
	fault := errors.New("fn's own")
	for _, returned := range []error{nil, fault} {
		p := newPlaces(t, 3)
		l := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second))
		err := multilock.DoAll(t.Context(), func(ctx context.Context, leases multilock.Leases) error {
			p.eraseOf(2)
			wait(t, ctx.Done())
			p.want(context.Cause(ctx), doclock.ErrLost)
			p.want(leases[1].Err(), doclock.ErrLost)
			kept := p.at(1).Lock.Tags["write"][0].Expires
			p.eventually("the others are renewed", func() bool { return p.at(1).Lock.Tags["write"][0].Expires.After(kept) })
			if leases[0].Err() != nil || leases[2].Err() != nil {
				t.Errorf("the others are %v and %v", leases[0], leases[2])
			}
			return returned
		}, of(l, 1, 2, 3)...)
		p.want(err, doclock.ErrLost)
		if returned != nil {
			p.want(err, returned)
		}
		p.wantNot(err, doclock.ErrNotAcquired)
		p.wantHeld()
	}
}

// A lease that fn releases before the others doesn't end the joint context. The
// last one does.
func TestTheJointContextOutlivesARelease(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 2)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	err := multilock.DoAll(t.Context(), func(ctx context.Context, leases multilock.Leases) error {
		for i, lease := range leases {
			if ctx.Err() != nil {
				t.Errorf("after %d releases the context is over: %v", i, context.Cause(ctx))
			}
			if err := lease.UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"total": 1}}); err != nil {
				return err
			}
		}
		wait(t, ctx.Done())
		p.want(context.Cause(ctx), doclock.ErrReleased)
		return nil
	}, of(l, 1, 2)...)
	if err != nil {
		t.Error(err)
	}
	if sent := w.count(); sent != 2+2 {
		t.Errorf("%d commands", sent)
	}
	if p.at(1).Total != 11 || p.at(2).Total != 11 {
		t.Errorf("the totals are %d and %d", p.at(1).Total, p.at(2).Total)
	}
	p.wantHeld()
}

func TestTheJointContextEndsWithItsParent(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 2)
	l := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second), doclock.ClockTolerance(0))
	leases, err := multilock.AcquireAll(p.bounded(), of(l, 1, 2)...)
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("the user has left")
	outer, cancel := context.WithCancelCause(t.Context())
	ctx := leases.KeepAlive(outer)
	again := leases.KeepAlive(ctx)
	cancel(cause)
	for _, ctx := range []context.Context{ctx, again} {
		wait(t, ctx.Done())
		p.want(context.Cause(ctx), cause)
	}
	for _, lease := range leases {
		wait(t, lease.Done()) // which nobody renews any more
	}
	over := leases.KeepAlive(t.Context())
	p.want(context.Cause(over), doclock.ErrLost)
	p.want(leases.Release(p.bounded())) // nobody was let in
	p.wantHeld()
}

// A command of the lost lease has its verdict, although the loss has ended its
// context.
func TestVerdictsInTheJointContext(t *testing.T) {
	t.Parallel()
	set := bson.M{"$set": bson.M{"total": 7}}
	for name, command := range map[string]func(context.Context, *doclock.Lease) error{
		"Update":           func(ctx context.Context, lease *doclock.Lease) error { return lease.Update(ctx, set) },
		"UpdateAndRelease": func(ctx context.Context, lease *doclock.Lease) error { return lease.UpdateAndRelease(ctx, set) },
		"Renew":            func(ctx context.Context, lease *doclock.Lease) error { return lease.Renew(ctx) },
		"Release":          func(ctx context.Context, lease *doclock.Lease) error { return lease.Release(ctx) },
	} {
		p := newPlaces(t, 2)
		l := p.locker(p.coll, relations.Exclusive())
		err := multilock.DoAll(t.Context(), func(ctx context.Context, leases multilock.Leases) error {
			p.eraseOf(1)
			child, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			err := command(child, leases[0])
			if errors.Is(leases[0].Err(), doclock.ErrLost) { // and not released
				wait(t, ctx.Done())
			}
			return err
		}, of(l, 1, 2)...)
		p.want(err, doclock.ErrLost)
		p.wantNot(err, doclock.ErrOutcomeUnknown)
		p.wantNot(err, context.Canceled)
		p.wantHeld()
		if p.at(1).Total != 10 || t.Failed() {
			t.Fatalf("%s: total %d", name, p.at(1).Total)
		}
	}
}

func TestDoAllReleasesWhenFnPanicsOrExits(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 2)
	l := p.locker(p.coll, relations.Exclusive())
	for name, fn := range map[string]func(){"panic": func() { panic("fn's own") }, "Goexit": runtime.Goexit} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				if r := recover(); name == "panic" && r != "fn's own" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = multilock.DoAll(t.Context(), func(context.Context, multilock.Leases) error {
				p.wantHeld(1, 2)
				fn()
				return nil
			}, of(l, 1, 2)...)
			t.Errorf("%s: DoAll returned", name)
		}()
		wait(t, done)
		p.wantHeld()
	}
}

// The releases don't depend on the context that bounded the wait and the work,
// and they happen although others are lost.
func TestDoAllReleasesAfterItsContextHasEnded(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 3)
	l := p.locker(p.coll, relations.Exclusive())
	cause := errors.New("the user has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := multilock.DoAll(ctx, func(ctx context.Context, _ multilock.Leases) error {
		p.eraseOf(1)
		p.eraseOf(3)
		cancel(cause)
		<-ctx.Done()
		return context.Cause(ctx)
	}, of(l, 1, 2, 3)...)
	p.want(err, cause, doclock.ErrLost)
	p.wantHeld()
}

// A write of unknown outcome is not reported as lost, which would mean that it was
// not applied.
func TestDoAllDoesNotJoinTwoVerdicts(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 2)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Exclusive())
	err := multilock.DoAll(t.Context(), func(ctx context.Context, leases multilock.Leases) error {
		slow := net.Arm(faultnet.DelayReply, "findAndModify")
		ctx, cancel := context.WithCancel(ctx)
		call := begin(t, func() (struct{}, error) {
			return struct{}{}, leases[0].Update(ctx, bson.M{"$set": bson.M{"total": 7}})
		})
		wait(t, slow.Fired())
		cancel()
		_, err := call.wait()
		p.want(err, doclock.ErrOutcomeUnknown)
		p.eraseOf(2)
		if err := slow.Let(); err != nil {
			t.Fatal(err)
		}
		return err
	}, of(l, 1, 2)...)
	p.want(err, doclock.ErrOutcomeUnknown)
	p.wantNot(err, doclock.ErrLost)
	if p.at(1).Total != 7 {
		t.Errorf("total is %d", p.at(1).Total)
	}
	p.wantHeld()
}

// Each error of a release names its document.
func TestReleaseOfSeveralNamesTheLost(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 3)
	l := p.locker(p.coll, relations.Exclusive())
	leases, err := multilock.AcquireAll(p.bounded(), of(l, 3, 2, 1, 2)...)
	if err != nil {
		t.Fatal(err)
	}
	p.eraseOf(3)
	p.eraseOf(2)
	err = leases.Release(p.bounded())
	fault{doclock.ErrLost, []string{`"write" on document 3`, `"write" on document 2`}}.check(t, "Release", err)
	again := leases.Release(p.bounded())
	p.want(again, doclock.ErrLost)
	p.wantHeld()
	if err := (multilock.Leases{}).Release(p.bounded()); err != nil {
		t.Error(err)
	}
}
