package multilock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
)

// Releases of the same process hand the lock over to waiting tickets in the order
// of their places, in whatever order they began to wait. After a local run they
// are told to ask. All times are so long that no pause ends within the test.
func TestTicketWaitIsWokenByALocalRelease(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair(), doclock.TTL(relayTTL), doclock.WaitTTL(relayTTL))
	holder := p.try(l, "write")
	first, second, third := p.enqueue(l, "write"), p.enqueue(l, "read"), p.enqueue(l, "write")
	ctx, cancel := context.WithTimeout(t.Context(), promptly)
	defer cancel()
	wait := func(n int, ticket interface {
		Wait(context.Context) (*doclock.Lease, error)
	}) *pending[*doclock.Lease] {
		call := begin(t, func() (*doclock.Lease, error) { return ticket.Wait(ctx) })
		p.queued(l, n)
		return call
	}
	last := wait(1, third)
	reader, next := wait(2, second), wait(3, first)
	w.commands()
	for _, call := range []*pending[*doclock.Lease]{next, reader, last} {
		p.release(holder)
		holder = p.granted(call)
	}
	p.release(holder)
	if sent := w.commands(); len(sent) > 8 {
		t.Errorf("four releases sent %v", sent)
	}
	p.wantEntries()
}

// Eight callers that take tickets and wait are as fast as the releases.
func TestTicketsOfOneProcessDontPause(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	const people, each = 8, 10
	begun := time.Now()
	var all sync.WaitGroup
	for range people {
		all.Go(func() {
			for range each {
				ticket, err := l.Enqueue(p.bounded(), flowers, "write")
				if err != nil {
					t.Error(err)
					return
				}
				lease, err := ticket.Wait(p.bounded())
				if err != nil {
					t.Error(err)
					return
				}
				if err := lease.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d sections in %v", people*each, time.Since(begun))
	p.wantEntries()
}

// All Waits of one ticket return one lease.
func TestWaitsOfOneTicket(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	holder := p.try(l, "write")
	ticket := p.enqueue(l, "write")
	var calls []*pending[*doclock.Lease]
	for range 4 {
		calls = append(calls, begin(t, func() (*doclock.Lease, error) { return ticket.Wait(p.bounded()) }))
	}
	p.queued(l, 1)
	p.release(holder)
	lease := p.granted(calls[0])
	for _, call := range calls {
		if p.granted(call) != lease {
			t.Error("another lease")
		}
	}
	p.wantEntries(lease)
	p.release(lease)
	p.wantEntries()
}

// A handoff to a Wait whose context ends in the meantime grants the ticket: a
// later Confirm returns the lease, and Cancel releases it.
func TestAHandoffToAWaitThatEnds(t *testing.T) {
	t.Parallel()
	for name, cancels := range map[string]bool{"confirmed": false, "cancelled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, net := p.faulty()
			l := p.locker(coll, relations.Fair(), doclock.TTL(relayTTL), doclock.WaitTTL(relayTTL))
			holder := p.try(l, "write")
			ticket := p.enqueue(l, "write")
			ctx, cancel := context.WithCancel(t.Context())
			call := begin(t, func() (*doclock.Lease, error) { return ticket.Wait(ctx) })
			p.queued(l, 1)
			handoff := net.Arm(faultnet.DelayReply, "findAndModify")
			released := begin(t, func() (struct{}, error) { return struct{}{}, holder.Release(p.bounded()) })
			wait(t, handoff.Fired())
			cancel()
			_, err := call.wait()
			p.want(err, context.Canceled, doclock.ErrNotAcquired, doclock.ErrConflict)
			if err := handoff.Let(); err != nil {
				t.Fatal(err)
			}
			if _, err := released.wait(); err != nil {
				t.Error(err)
			}
			p.eventually("the ticket is granted", ticket.Granted)
			if cancels {
				if err := ticket.Cancel(p.bounded()); err != nil {
					t.Error(err)
				}
				p.wantEntries()
				return
			}
			lease, err := ticket.Confirm(p.bounded())
			if err != nil {
				t.Fatal(err)
			}
			p.wantEntries(lease)
		})
	}
}

// A Wait ends when its ticket is cancelled, at the latest at its next confirm.
func TestACancelEndsTheWait(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair(), doclock.WaitTTL(time.Second))
	holder := p.try(l, "write")
	ticket := p.enqueue(l, "write")
	call := begin(t, func() (*doclock.Lease, error) { return ticket.Wait(p.bounded()) })
	p.queued(l, 1)
	if err := ticket.Cancel(p.bounded()); err != nil {
		t.Fatal(err)
	}
	_, err := call.wait()
	p.want(err, doclock.ErrReleased)
	p.release(holder)
	p.wantEntries()
}
