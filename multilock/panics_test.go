package multilock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// exploding is a value whose codec panics.
type exploding struct{}

func (exploding) MarshalBSONValue() (byte, []byte, error) { panic("the caller's codec") }

// recovered calls f and returns what it panicked with.
func recovered(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}

// The caller can recover from a panic in its own codec. Nothing is sent, and
// nothing stays behind.
func TestAPanicInACodecIsTheCallers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair())
	for name, call := range calls {
		w.commands()
		if got := recovered(func() { _, _ = call(p.bounded(), l, bson.M{"_id": exploding{}}) }); got != "the caller's codec" {
			t.Errorf("%s: recovered %v", name, got)
		}
		if sent := w.commands(); len(sent) > 0 {
			t.Errorf("%s: sent %v", name, sent)
		}
	}
	for name, write := range writes {
		lease := p.try(l, "write")
		for place, g := range placesOf(exploding{}) {
			w.commands()
			if got := recovered(func() { _ = g.to(p.bounded(), lease, write) }); got != "the caller's codec" {
				t.Errorf("%s, %s: recovered %v", name, place, got)
			}
			if sent := w.commands(); len(sent) > 0 {
				t.Errorf("%s, %s: sent %v", name, place, sent)
			}
		}
		if err := errors.Join(lease.Renew(p.bounded()), lease.Update(p.bounded(), bson.M{"$inc": bson.M{"total": 1}})); err != nil {
			t.Errorf("%s: the lease then: %v", name, err)
		}
		p.wantEntries(lease)
		p.release(lease)
	}
	if n := l.WaitQueues(); n != 0 {
		t.Errorf("%d documents are remembered", n)
	}
}

// panicking is a document whose decoding panics.
type panicking struct{}

func (*panicking) UnmarshalBSON([]byte) error { panic("the caller's codec") }

// The same for a panic in the caller's decoder; the lock is released.
func TestAPanicInIntoIsTheCallers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	into := doclock.Into(&panicking{})
	check := func(name string, call func()) {
		t.Helper()
		if got := recovered(call); got != "the caller's codec" {
			t.Errorf("%s: recovered %v", name, got)
		}
		p.eventually("the lock is free", func() bool { return len(p.entries()) == 0 })
	}
	check("TryAcquire", func() { _, _ = l.TryAcquire(p.bounded(), flowers, "write", into) })
	check("Acquire", func() { _, _ = l.Acquire(p.bounded(), flowers, "write", into) })
	check("Enqueue", func() { _, _ = l.Enqueue(p.bounded(), flowers, "write", into) })
	for name, call := range map[string]func(*multilock.Ticket) (*doclock.Lease, error){
		"Confirm": func(ticket *multilock.Ticket) (*doclock.Lease, error) { return ticket.Confirm(p.bounded()) },
		"Wait":    func(ticket *multilock.Ticket) (*doclock.Lease, error) { return ticket.Wait(p.bounded()) },
	} {
		holder := p.try(l, "write")
		ticket := p.enqueue(l, "read", into)
		p.release(holder)
		check(name, func() { _, _ = call(ticket) })
		lease, err := ticket.Confirm(p.bounded())
		if lease != nil {
			t.Errorf("%s again: a lease", name)
		}
		p.want(err, doclock.ErrReleased)
		if err := ticket.Cancel(p.bounded()); err != nil {
			t.Errorf("Cancel: %v", err)
		}
	}
	// A ticket that was granted after its caller gave up.
	coll, net := p.faulty()
	l = p.locker(coll, relations.Fair())
	holder := p.try(l, "write")
	ticket := p.enqueue(l, "read", into)
	p.release(holder)
	slow := net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel := context.WithCancel(t.Context())
	call := begin(t, func() (*doclock.Lease, error) { return ticket.Confirm(ctx) })
	wait(t, slow.Fired())
	cancel()
	_, err := call.wait()
	p.want(err, context.Canceled)
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	p.eventually("the ticket is granted", ticket.Granted)
	check("Confirm after its caller gave up", func() { _, _ = ticket.Confirm(p.bounded()) })
	_, err = ticket.Confirm(p.bounded())
	p.want(err, doclock.ErrReleased)

	// A waiter that is handed the lock, and the next one behind it.
	holder = p.try(l, "write")
	first := begin(t, func() (any, error) {
		return recovered(func() { _, _ = l.Acquire(p.bounded(), flowers, "write", into) }), nil
	})
	p.queued(l, 1)
	next := acquire(t, p.bounded(), l, "write")
	p.queued(l, 2)
	p.release(holder)
	if got, _ := first.wait(); got != "the caller's codec" {
		t.Errorf("the waiter: recovered %v", got)
	}
	lease, err := next.wait()
	if err != nil {
		t.Fatal(err)
	}
	p.wantEntries(lease)
	p.release(lease)
}
