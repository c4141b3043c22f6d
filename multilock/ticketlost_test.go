package multilock_test

import (
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/adjust"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
)

// A waiting entry without a confirm is pruned. It does not join the end of the
// queue again without the caller's knowledge. An expired entry is not lost until it is
// pruned: presence decides.
func TestTicketLostWhenItsWaitingRanOut(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), &clock{}
	l := p.locker(p.coll, relations.Fair(), at.drive(), doclock.TTL(20*time.Second), adjust.WaitTTL(time.Second), doclock.ClockTolerance(0))
	writer := p.try(l, "write")
	late := p.enqueue(l, "write")
	at.Pass(5 * time.Second)
	_, err := late.Confirm(t.Context()) // expired, and keeps its place
	p.conflict(err)
	early := p.enqueue(l, "write")

	at.Pass(500 * time.Millisecond)
	p.conflict(errOf(late.Confirm(t.Context())))
	at.Pass(500 * time.Millisecond)
	_, err = late.Confirm(t.Context()) // prunes the other one
	if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != writer.ID() {
		t.Errorf("in the way: %+v", c.Holders)
	}
	for range 2 {
		lease, err := early.Confirm(t.Context())
		p.want(err, doclock.ErrLost)
		if lease != nil || early.Granted() {
			t.Error("a lost ticket has a lease")
		}
	}
	ok(t, early.Cancel(t.Context()))
	if e := p.entries("write"); len(e) != 2 || string(e[1].ID.Data) != string(idOf(late.ID())) {
		t.Errorf("the entries are %+v", e)
	}
}

// Rule 7: the entry was pruned, and then a late duplicate of the acquire entered
// it anew. This entry is not the ticket's, because others may have been let in
// before it. The ticket is lost, and the id is released. It is so, too, if nobody is in
// the way: the server grants the confirm, and the grant must not become a valid lease.
func TestTicketLostWhenALateDuplicateEnteredItAnew(t *testing.T) {
	t.Parallel()
	for name, granted := range map[string]bool{"waiting": false, "granted": true} {
		virtually(t, name, func(p *place) {
			coll, net := p.faulty()
			ann := p.locker(coll, relations.WritePreferring(), adjust.WaitTTL(100*time.Millisecond), doclock.ClockTolerance(0))
			bob := p.locker(p.coll, relations.WritePreferring())
			readers := []*doclock.Lease{p.try(bob, "read")}
			duplicate := net.Arm(faultnet.Repeat, "findAndModify")
			ticket := p.enqueue(ann, "write")
			wait(p, duplicate.Fired())
			seq := p.entries("write")[0].Seq
			readers = append(readers, p.acquire(bob, "read")) // let in past the expired waiter, and prunes it
			p.wantEntries(readers...)
			if granted {
				p.release(readers[0])
				p.release(readers[1])
				readers = nil
			}
			must(p, duplicate.Let())
			if e := p.entries("write"); len(e) != 1 || e[0].Seq <= seq {
				p.Fatalf("the duplicate entered %+v, the seq was %d", e, seq)
			}
			lease, err := ticket.Confirm(p.Context())
			p.want(err, doclock.ErrLost)
			if lease != nil || ticket.Granted() {
				p.Error("the ticket has a lease")
			}
			p.rest(ann)
			p.wantEntries(readers...)
		})
	}
}
