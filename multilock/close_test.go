package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
)

type locker = *multilock.Locker

func TestCloseRefusesNewAcquires(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair())
	p.rest(l)
	for name, ask := range acquires {
		p.want(ask(p, t.Context(), l, "write"), doclock.ErrClosed)
		if sent := w.commands(); len(sent) != 0 {
			t.Errorf("%s sent %v", name, sent)
		}
	}
	p.rest(l) // twice
}

// Leases stay valid: they can be written under, renewed and released.
func TestCloseLeavesLeasesAndTicketsUsable(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	lease := p.try(l, "read")
	ticket := p.enqueue(l, "write")
	p.rest(l)
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew: %v", err)
	}
	p.release(lease)
	second, err := ticket.Confirm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.release(second)
	p.wantEntries()
}

// Close wakes the waiters, and returns after their entries were removed.
func TestCloseWakesWaitersAndRemovesTheirEntries(t *testing.T) {
	t.Parallel()
	for range 5 {
		p := newPlace(t)
		holder := p.try(p.locker(p.coll, relations.Fair()), "read")
		l := p.locker(p.coll, relations.Fair())
		call := acquire(t, p.bounded(), l, "write")
		p.waiting("write")
		time.Sleep(50 * time.Millisecond) // most likely it is between two polls then
		p.rest(l)
		p.wantEntries(holder)
		_, err := call.wait()
		p.want(err, doclock.ErrClosed, doclock.ErrConflict)
	}
}

func TestCloseWakesWaitersThatAreRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder := p.try(p.locker(p.coll, relations.Exclusive()), "write")
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	call := acquire(t, p.bounded(), l, "write")
	p.eventually("it asks a few times", func() bool { return w.count() > 3 })
	p.rest(l)
	w.commands()
	_, err := call.wait()
	p.want(err, doclock.ErrClosed, doclock.ErrConflict)
	if sent := w.commands(); len(sent) != 0 {
		t.Errorf("after Close it sent %v", sent)
	}
	p.wantEntries(holder)
}

func TestCloseWakesTicketWait(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	p.try(l, "read")
	ticket := p.enqueue(l, "write")
	call := begin(t, func() (*doclock.Lease, error) { return ticket.Wait(p.bounded()) })
	first := p.entries("write")[0].Expires
	p.eventually("Wait has confirmed", func() bool { return p.entries("write")[0].Expires.After(first) })
	p.rest(l)
	_, err := call.wait()
	p.want(err, doclock.ErrClosed, doclock.ErrConflict)
	if n := len(p.entries("write")); n != 1 {
		t.Errorf("%d waiting entries: Close does not cancel tickets", n)
	}
	if err := ticket.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCloseWaitsForWhatRunsInTheBackground(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Exclusive())
	slow := net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel := context.WithCancel(t.Context())
	call := acquire(t, ctx, l, "write")
	wait(t, slow.Fired())
	cancel()
	_, err := call.wait()
	p.want(err, context.Canceled)

	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	p.want(l.Close(short), context.DeadlineExceeded)
	p.want(acquires["TryAcquire"](p, t.Context(), l, "write"), doclock.ErrClosed)
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	p.rest(l)
	p.wantEntries()
}
