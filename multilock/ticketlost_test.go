package multilock_test

import (
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
)

// A waiting entry without a confirm is pruned. It does not join the end of the
// queue again without the caller's knowledge.
func TestTicketLostWhenItsWaitingRanOut(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.Fair(), at.drive(), doclock.TTL(20*time.Second), doclock.WaitTTL(time.Second), doclock.ClockTolerance(0))
	writer := p.try(l, "write")
	early, late := p.enqueue(l, "write"), p.enqueue(l, "write")

	at.pass(500 * time.Millisecond)
	_, err := late.Confirm(t.Context()) // keeps its place
	p.conflict(err)
	at.pass(500 * time.Millisecond)
	_, err = late.Confirm(t.Context()) // prunes the early one
	if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != writer.ID() {
		t.Errorf("in the way of the late one: %+v", c.Holders)
	}
	for range 2 {
		lease, err := early.Confirm(t.Context())
		p.want(err, doclock.ErrLost)
		if lease != nil || early.Granted() {
			t.Error("a lost ticket has a lease")
		}
	}
	if err := early.Cancel(t.Context()); err != nil {
		t.Errorf("Cancel of a lost ticket: %v", err)
	}
	if e := p.entries("write"); len(e) != 2 || string(e[1].ID.Data) != string(idOf(late.ID())) {
		t.Errorf("the entries are %+v", e)
	}
}

// An expired entry is not lost until it is pruned: presence decides.
func TestTicketThatExpiredUnprunedKeepsItsPlace(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.Fair(), at.drive(), doclock.TTL(20*time.Second), doclock.WaitTTL(time.Second), doclock.ClockTolerance(0))
	p.try(l, "write")
	ticket := p.enqueue(l, "write")
	seq := p.entries("write")[1].Seq
	at.pass(5 * time.Second)
	_, err := ticket.Confirm(t.Context())
	p.conflict(err)
	if e := p.entries("write")[1]; e.Seq != seq || e.Expires.Sub(at.now()) != time.Second {
		t.Errorf("the entry is %+v, its seq was %d", e, seq)
	}
}

func TestTicketLostWithItsDocument(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	p.try(l, "write")
	ticket := p.enqueue(l, "read")
	p.remove()
	_, err := ticket.Confirm(t.Context())
	p.want(err, doclock.ErrLost)
	p.insert()
	_, err = ticket.Wait(p.bounded())
	p.want(err, doclock.ErrLost)
	if e := p.entries(); len(e) != 0 {
		t.Errorf("entries in the new document: %+v", e)
	}
}

// Rule 7: the entry was pruned, and then a late duplicate of the acquire entered
// it anew. This entry is not the ticket's, because others may have been let in
// before it. The ticket is lost, and the id is released.
func TestTicketLostWhenALateDuplicateEnteredItAnew(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	ann := p.locker(coll, relations.WritePreferring(), shortWait(100*time.Millisecond), doclock.ClockTolerance(0))
	bob := p.locker(p.coll, relations.WritePreferring())
	reader := p.try(bob, "read")
	duplicate := net.Arm(faultnet.Repeat, "findAndModify")
	ticket := p.enqueue(ann, "write")
	wait(t, duplicate.Fired())
	seq := p.entries("write")[0].Seq

	second, err := bob.Acquire(p.bounded(), flowers, "read") // let in past the expired waiter, and prunes it
	if err != nil {
		t.Fatal(err)
	}
	p.wantEntries(reader, second)
	if err := duplicate.Let(); err != nil {
		t.Fatal(err)
	}
	if e := p.entries("write"); len(e) != 1 || e[0].Seq <= seq {
		t.Fatalf("the duplicate entered %+v, the seq was %d", e, seq)
	}

	lease, err := ticket.Confirm(t.Context())
	p.want(err, doclock.ErrLost)
	if lease != nil {
		t.Error("the ticket has a lease")
	}
	p.rest(ann)
	p.wantEntries(reader, second)
}

// The same without another entry in the way: the server grants the confirm, and
// the grant must not become a valid lease.
func TestTicketLostWhenALateDuplicateIsGranted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	ann := p.locker(coll, relations.WritePreferring(), shortWait(100*time.Millisecond), doclock.ClockTolerance(0))
	bob := p.locker(p.coll, relations.WritePreferring())
	reader := p.try(bob, "read")
	duplicate := net.Arm(faultnet.Repeat, "findAndModify")
	ticket := p.enqueue(ann, "write")
	second, err := bob.Acquire(p.bounded(), flowers, "read")
	if err != nil {
		t.Fatal(err)
	}
	p.release(reader)
	p.release(second)
	if err := duplicate.Let(); err != nil {
		t.Fatal(err)
	}
	_, err = ticket.Confirm(t.Context())
	p.want(err, doclock.ErrLost)
	if ticket.Granted() {
		t.Error("the ticket is granted")
	}
	p.rest(ann)
	p.wantEntries()
}
