package multilock_test

import (
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
)

// Rule 4: the validity counts from the send of the confirm that was granted. If
// it counted from the reply, another client could enter while the lease is valid.
func TestRule04ConfirmIsAnchoredAtTheSend(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	var clocks turned
	ann := p.locker(coll, relations.Fair(), doclock.TTL(10*time.Second), clocks.option)
	holder := p.try(p.locker(p.coll, relations.Fair()), "write")
	ticket := p.enqueue(ann, "write")
	p.release(holder)
	clocks.pass(time.Second) // before the confirm: no matter
	reply := net.Arm(faultnet.DelayReply, "findAndModify")
	confirmed := begin(t, func() (*doclock.Lease, error) { return ticket.Confirm(p.bounded()) })
	wait(t, reply.Fired())
	clocks.pass(4 * time.Second)
	if err := reply.Let(); err != nil {
		t.Fatal(err)
	}
	lease, err := confirmed.wait()
	if err != nil {
		t.Fatal(err)
	}
	if r := lease.Remaining(); r > 6*time.Second || r < 5*time.Second {
		t.Errorf("%v remain of 10s, 4s after the confirm was sent", r)
	}
}

// However long a ticket has waited, it asks often enough to keep its place.
func TestTicketThatWaitedLongKeepsItsPlace(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.Fair(), at.drive(), shortWait(150*time.Millisecond), doclock.ClockTolerance(0))
	p.try(l, "read")
	ticket := p.enqueue(l, "write")
	time.Sleep(time.Second) // an eighth of this is the pause
	_, err := ticket.Confirm(t.Context())
	p.conflict(err)
	if d := time.Until(ticket.RetryAt()); d > 50*time.Millisecond {
		t.Errorf("RetryAt is %v from now; the place is kept for 150ms", d)
	}
}
