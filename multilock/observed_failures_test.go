package multilock_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// What the network does is told: renewals that fail, outcomes that are unknown,
// clean-ups that are refused.
func TestEventsOfFailures(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	h, option := p.heard()
	l := p.locker(coll, relations.Exclusive(), option)
	lease := p.try(l, "write")
	slow := net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel := context.WithCancel(t.Context())
	call := begin(t, func() (any, error) { return nil, lease.Update(ctx, bson.M{"$set": bson.M{"total": 2}}) })
	wait(t, slow.Fired())
	cancel()
	_, err := call.wait()
	p.want(err, doclock.ErrOutcomeUnknown)
	all := h.want("granted 1", "outcome unknown 1")
	if e := all[1]; !errors.Is(e.Err, context.Canceled) || !errors.Is(e.Err, doclock.ErrOutcomeUnknown) || e.LeaseID != lease.ID() {
		t.Errorf("unknown: %+v", e)
	}
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	slow = net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel = context.WithCancel(t.Context())
	call = begin(t, func() (any, error) { return nil, lease.Release(ctx) })
	wait(t, slow.Fired())
	cancel()
	_, err = call.wait()
	p.want(err, doclock.ErrOutcomeUnknown)
	h.want("outcome unknown 2")
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	if e := h.want("released 2")[0]; e.Err != nil {
		t.Errorf("released with %v", e.Err)
	}

	// A lease that is granted to nobody has no events, but for its clean-up.
	slow = net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel = context.WithCancel(t.Context())
	gone := acquire(t, ctx, l, "write")
	wait(t, slow.Fired())
	cancel()
	_, err = gone.wait()
	p.want(err, context.Canceled)
	h.want("gave up 1")
	net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
		return bson.M{"ok": 0, "code": 13, "codeName": "Unauthorized", "errmsg": "not allowed"}
	})
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	e := h.want("clean-up failed 0")[0]
	if entry := p.entries("write")[0]; !slices.Equal(entry.ID.Data, e.LeaseID[:]) || driverError(e.Err) == nil || e.Tag != "write" || e.DocumentID.Type == 0 {
		t.Errorf("the clean-up of %+v: %+v", entry, e)
	}
}

// The removal of a waiting entry fails: its acquire has given up before.
func TestEventsOfARefusedCleanUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	h, option := p.heard()
	holder := p.try(p.locker(p.coll, relations.Fair()), "write")
	l := p.locker(coll, relations.Fair(), option)
	ticket := p.enqueue(l, "write")
	net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
		return bson.M{"ok": 0, "code": 13, "codeName": "Unauthorized", "errmsg": "not allowed"}
	})
	if err := ticket.Cancel(p.bounded()); err == nil {
		t.Error("Cancel has removed it")
	}
	e := h.want("waiting 1", "gave up 1", "clean-up failed 0")[2]
	if e.LeaseID != ticket.ID() || !e.DocumentID.Equal(holder.DocumentID()) || e.Tag != "write" || driverError(e.Err) == nil {
		t.Errorf("the clean-up: %+v", e)
	}
}

// An observer that is stuck delays nobody, and Close neither. What it was too slow
// for is delivered when it goes on.
func TestAStuckObserverDelaysNobody(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	stuck := make(chan struct{})
	l := p.locker(p.coll, relations.Exclusive(), doclock.OnEvent(func(context.Context, doclock.Event) { <-stuck }), option)
	lease := p.try(l, "write")
	waiter := acquire(t, p.bounded(), l, "write")
	p.eventually("it waits", func() bool { return l.Waiters(1) == 1 })
	p.release(lease)
	p.release(p.granted(waiter))
	p.rest(l)
	if all := h.events(); len(all) > 0 {
		t.Errorf("told %v", all)
	}
	close(stuck)
	h.want("granted 1", "waiting", passedOn, "granted", "released 1")
}

// An observer may use the Locker: it is called under no lock of it, whatever it is
// told.
func TestAnObserverUsesItsLocker(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, heard := p.heard()
	var l *multilock.Locker
	lost, ended := make(chan *doclock.Lease, 1), make(chan struct{})
	l = p.locker(p.coll, relations.Exclusive(), heard, doclock.OnEvent(func(ctx context.Context, e doclock.Event) {
		switch e.Kind {
		case doclock.EventLost:
			_ = (<-lost).Release(ctx) // its entry was erased
			lease, err := l.Acquire(ctx, flowers, "write")
			if err != nil {
				t.Errorf("Acquire: %v", err)
				return
			}
			if err := lease.Release(ctx); err != nil {
				t.Errorf("Release: %v", err)
			}
		case doclock.EventReleased:
			close(ended)
		}
	}))
	lease := p.try(l, "write")
	lost <- lease
	p.erase("write")
	p.want(lease.Renew(p.bounded()), doclock.ErrLost)
	wait(t, ended)
	h.want("granted 1", "lost 1", "granted 1", "released 1")
}

// Without an observer an acquire allocates nothing for one, and reads no clock.
func TestNoObserver(t *testing.T) {
	p := newPlace(t)
	readings := 0
	l := p.locker(p.coll, relations.Exclusive(), func(c *engine.Config) error {
		c.Clock = func() engine.Reading { readings++; return engine.Reading{} }
		return nil
	})
	ctx := t.Context()
	n := testing.AllocsPerRun(100, func() {
		if !l.TellNobody(ctx) {
			t.Error("commands are counted")
		}
	})
	if n > 0 || readings > 0 {
		t.Errorf("%v allocations, %d readings of the clock", n, readings)
	}
}

// A caller whose own decoding panics has no lease: its acquire gives up.
func TestEventsOfADecodingThatPanics(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.locker(p.coll, relations.Fair(), option)
	into := doclock.Into(&panicking{})
	gaveUp := func(call func() (any, error)) {
		t.Helper()
		if recovered(func() { _, _ = call() }) == nil {
			t.Fatal("it has not panicked")
		}
		if e := h.want("gave up 1")[0]; !errors.Is(e.Err, doclock.ErrNotAcquired) {
			t.Errorf("gave up with %v", e.Err)
		}
		p.eventually("its entry is gone", func() bool { return len(p.entries("write")) == 0 })
	}
	gaveUp(func() (any, error) { return l.TryAcquire(p.bounded(), flowers, "write", into) })
	gaveUp(func() (any, error) { return l.Acquire(p.bounded(), flowers, "write", into) })
	gaveUp(func() (any, error) { return l.Enqueue(p.bounded(), flowers, "write", into) })
	lease := p.try(l, "write")
	ticket, err := l.Enqueue(p.bounded(), flowers, "write", into)
	if err != nil {
		t.Fatal(err)
	}
	p.release(lease)
	h.want("granted 1", "waiting 1", "released 1")
	if recovered(func() { _, _ = ticket.Confirm(p.bounded()) }) == nil {
		t.Fatal("it has not panicked")
	}
	h.want("gave up 2")
	p.eventually("its entry is gone", func() bool { return len(p.entries("write")) == 0 })
	token := p.detach(p.try(l, "write"))
	h.want("granted 1", "detached 1")
	if recovered(func() { _, _ = l.Resume(p.bounded(), token, into) }) == nil {
		t.Fatal("it has not panicked")
	}
	h.want("gave up 1")
}

// A ticket's cancel whose caller gives up is of unknown outcome. Another caller who
// gives up waiting for the same removal is told so too, and the observer is not.
func TestEventsOfACancelOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	h, option := p.heard()
	p.try(p.locker(p.coll, relations.Fair()), "write")
	l := p.locker(coll, relations.Fair(), option)
	ticket := p.enqueue(l, "write")
	slow := net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel := context.WithCancel(t.Context())
	call := begin(t, func() (any, error) { return nil, ticket.Cancel(ctx) })
	wait(t, slow.Fired())
	cancel()
	_, err := call.wait()
	p.want(err, doclock.ErrOutcomeUnknown)
	if e := h.want("waiting 1", "gave up 1", "outcome unknown 1")[2]; !errors.Is(e.Err, context.Canceled) || !e.DocumentID.Equal(ticket.DocumentID()) || e.Tag != "write" {
		t.Errorf("unknown: %+v", e)
	}
	p.want(ticket.Cancel(ctx), doclock.ErrOutcomeUnknown)
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	if err := ticket.Cancel(p.bounded()); err != nil {
		t.Fatal(err)
	}
	p.rest(l)
	if more := h.events(); len(more) > 0 {
		t.Errorf("told %v", more)
	}
}
