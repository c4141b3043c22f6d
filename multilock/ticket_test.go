package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestEnqueueGrantedAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.WritePreferring())
	ticket := p.enqueue(l, "write")
	if !ticket.Granted() {
		t.Fatal("the ticket is not granted")
	}
	lease, err := ticket.Confirm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if lease.ID() != ticket.ID() || lease.Tag() != ticket.Tag() || !lease.DocumentID().Equal(ticket.DocumentID()) {
		t.Errorf("ticket %v %q %v, lease %v %q %v", ticket.ID(), ticket.Tag(), ticket.DocumentID(), lease.ID(), lease.Tag(), lease.DocumentID())
	}
	if e := p.entries("write")[0]; e.Seq != e.Fence || e.Fence != lease.Fence() {
		t.Errorf("granted at once, seq is %d, fence %d, the lease's fence %d", e.Seq, e.Fence, lease.Fence())
	}
	if err := ticket.Cancel(t.Context()); err != nil {
		t.Errorf("Cancel of a granted ticket: %v", err)
	}
	p.wantEntries(lease)
}

// A refused Enqueue returns no ticket and leaves no entry: the tag is cooperative.
func TestEnqueueRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.WritePreferring())
	writer := p.try(l, "write")
	for _, tag := range []string{"read", "write"} {
		ticket, err := l.Enqueue(t.Context(), flowers, tag)
		if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != writer.ID() || c.Holders[0].Waiting {
			t.Errorf("in the way of %q: %+v", tag, c.Holders)
		}
		if ticket != nil {
			t.Errorf("there is a ticket for %q", tag)
		}
	}
	p.wantEntries(writer)
	ticket, err := l.Enqueue(t.Context(), bson.M{"_id": 2}, "write")
	p.want(err, doclock.ErrNotFound)
	if ticket != nil {
		t.Error("there is a ticket for a document that is not there")
	}
}

// A waiting ticket blocks the tags that respect its tag. Each confirm extends
// it. It is granted when the entries that it waits for have left.
func TestTicketWaitsAndIsGranted(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.WritePreferring(), at.drive(),
		doclock.TTL(10*time.Second), doclock.WaitTTL(3*time.Second), doclock.ClockTolerance(0))
	reader := p.try(l, "read")
	ticket := p.enqueue(l, "write")
	if ticket.Granted() {
		t.Fatal("granted beside a reader")
	}
	entered := p.entries("write")[0]
	if entered.held() || entered.Expires.Sub(at.now()) != 3*time.Second {
		t.Errorf("the waiting entry is %+v", entered)
	}
	_, err := l.TryAcquire(t.Context(), flowers, "read")
	if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != ticket.ID() || !c.Holders[0].Waiting {
		t.Errorf("in the way of a reader: %+v", c.Holders)
	}

	at.pass(2 * time.Second)
	lease, err := ticket.Confirm(t.Context())
	if c := p.conflict(err); lease != nil || len(c.Holders) != 1 || c.Holders[0].ID != reader.ID() || c.Tag != "write" {
		t.Errorf("the confirm's conflict is %+v, its lease %v", c, lease)
	}
	if e := p.entries("write")[0]; e.Expires.Sub(at.now()) != 3*time.Second || e.Seq != entered.Seq {
		t.Errorf("confirmed, the waiting entry is %+v", e)
	}

	p.release(reader)
	lease, err = ticket.Confirm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := p.entries("write")[0]
	if !e.held() || e.Fence != lease.Fence() || e.Seq != entered.Seq || e.Fence <= reader.Fence() || e.Expires.Sub(at.now()) != 10*time.Second {
		t.Errorf("granted, the entry is %+v, the lease's fence %d", e, lease.Fence())
	}
	again, err := ticket.Confirm(t.Context())
	if err != nil || again != lease {
		t.Errorf("confirmed again, the lease is %p (%v), was %p", again, err, lease)
	}
}

// RetryAt is soon enough to keep the place, and no later than the lock can become
// free by itself.
func TestTicketRetryAt(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.WritePreferring(), at.drive(), shortWait(300*time.Millisecond), doclock.ClockTolerance(0))
	p.try(l, "read")
	before := time.Now()
	ticket := p.enqueue(l, "write")
	for range 5 {
		if r := ticket.RetryAt(); r.Before(before) || r.After(time.Now().Add(100*time.Millisecond)) {
			t.Errorf("RetryAt is %v from now; the place is kept for 300ms", time.Until(r))
		}
		before = time.Now()
		_, err := ticket.Confirm(t.Context())
		p.conflict(err)
	}
}

func TestTicketWait(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair(), shortWait(100*time.Millisecond))
	writer := p.try(l, "write")
	ticket := p.enqueue(l, "read")
	call := begin(t, func() (*doclock.Lease, error) { return ticket.Wait(p.bounded()) })
	// It keeps its place, for several times WaitTTL and tolerance.
	first := p.entries("read")[0].Expires
	p.eventually("the waiting is extended", func() bool { return p.entries("read")[0].Expires.Sub(first) > time.Second })
	p.release(writer)
	lease, err := call.wait()
	if err != nil {
		t.Fatal(err)
	}
	p.wantEntries(lease)
	if lease, err = ticket.Wait(t.Context()); err != nil || lease == nil {
		t.Errorf("Wait again: %v", err)
	}
}

// The entry stays after the end of Wait's context, and the error names the
// holders in the way.
func TestTicketWaitCancelledKeepsTheEntry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	writer := p.try(l, "write")
	ticket := p.enqueue(l, "read")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := ticket.Wait(ended)
	p.want(err, context.Canceled, doclock.ErrConflict)

	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = ticket.Wait(short)
	p.want(err, context.DeadlineExceeded)
	if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != writer.ID() {
		t.Errorf("in the way: %+v", c.Holders)
	}
	if e := p.entries("read"); len(e) != 1 || e[0].held() {
		t.Errorf("the waiting entry: %+v", e)
	}
	p.release(writer)
	lease, err := ticket.Wait(p.bounded())
	if err != nil {
		t.Fatal(err)
	}
	p.wantEntries(lease)
}

func TestTicketCancel(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair())
	writer := p.try(l, "write")
	ticket := p.enqueue(l, "read")
	w.commands()
	if err := ticket.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.wantEntries(writer)
	if err := ticket.Cancel(t.Context()); err != nil {
		t.Errorf("Cancel again: %v", err)
	}
	for name, call := range map[string]func(context.Context) (*doclock.Lease, error){"Confirm": ticket.Confirm, "Wait": ticket.Wait} {
		lease, err := call(p.bounded())
		p.want(err, doclock.ErrReleased)
		if lease != nil {
			t.Errorf("%s of a cancelled ticket has a lease", name)
		}
	}
	if n := len(w.commands()); n != 1 {
		t.Errorf("%d commands; want one, the first Cancel's", n)
	}
}

// A Cancel whose context ends continues in the background.
func TestTicketCancelOutlivesItsContext(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Fair())
	writer := p.try(l, "write")
	ticket := p.enqueue(l, "read")
	slow := net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel := context.WithCancel(t.Context())
	call := begin(t, func() (struct{}, error) { return struct{}{}, ticket.Cancel(ctx) })
	wait(t, slow.Fired())
	cancel()
	_, err := call.wait()
	p.want(err, context.Canceled, doclock.ErrOutcomeUnknown)
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	p.rest(l)
	p.wantEntries(writer)
}

// A confirm is granted after its caller has given up: the ticket has the lease,
// and Cancel releases it.
func TestTicketGrantedAfterItsCallerGaveUp(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		p := newPlace(t)
		coll, net := p.faulty()
		l := p.locker(coll, relations.Fair())
		writer := p.try(l, "write")
		ticket := p.enqueue(l, "read")
		p.release(writer)
		slow := net.Arm(faultnet.DelayReply, "findAndModify")
		ctx, cancel := context.WithCancel(t.Context())
		call := begin(t, func() (*doclock.Lease, error) { return ticket.Confirm(ctx) })
		wait(t, slow.Fired())
		cancel()
		_, err := call.wait()
		p.want(err, context.Canceled, doclock.ErrNotAcquired)
		if err := slow.Let(); err != nil {
			t.Fatal(err)
		}
		if cancelled {
			if err := ticket.Cancel(t.Context()); err != nil {
				t.Errorf("Cancel: %v", err)
			}
			p.wantEntries()
			continue
		}
		p.eventually("the ticket is granted", ticket.Granted)
		lease, err := ticket.Confirm(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p.wantEntries(lease)
	}
}

func idOf(id uuid.UUID) []byte { return id[:] }
