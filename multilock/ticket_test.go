package multilock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	driver "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Rule 4: the validity counts from the send of the confirm that was granted. If
// it counted from the reply, another client could enter while the lease is valid.
func TestRule04ConfirmIsAnchoredAtTheSend(t *testing.T) {
	virtual(t, func(p *place) {
		ann := p.locker(p.coll, relations.Fair(), doclock.TTL(10*time.Second))
		holder := p.try(p.locker(p.coll, relations.Fair()), "write")
		ticket := p.enqueue(ann, "write")
		p.release(holder)
		time.Sleep(time.Second) // before the confirm: no matter
		p.mem.Delay(1, 3*time.Second)
		lease := p.got(ticket.Confirm(p.Context()))
		if r := lease.Remaining(); r > 7*time.Second || r < 6*time.Second {
			p.Errorf("%v remain of 10s, 3s after the confirm was sent", r)
		}
	})
}

// RetryAt is soon enough to keep the place, however long the ticket has waited, and later if
// somebody waits before it. It stays until the next Confirm.
func TestTicketRetryAt(t *testing.T) {
	virtual(t, func(p *place) {
		at := &clock{} // which stands still: the pauses are the shortest ones
		l := p.locker(p.coll, relations.Fair(), at.drive(), at.turn(), waitTTL(300*time.Millisecond), doclock.ClockTolerance(0))
		p.try(l, "read", doclock.TTL(time.Hour))
		first, second := p.enqueue(l, "write"), p.enqueue(l, "write")
		for range 10 {
			next, later := first.RetryAt(), second.RetryAt()
			if r := time.Until(next); r < 0 || r > 3*time.Millisecond {
				p.Errorf("RetryAt is %v from now, with nobody before the ticket", r)
			}
			if r := time.Until(later); r < 2*time.Millisecond || r > 100*time.Millisecond {
				p.Errorf("RetryAt is %v from now, behind another ticket; the place is kept for 300ms", r)
			}
			time.Sleep(time.Second)
			if again := first.RetryAt(); again != next {
				p.Errorf("RetryAt has moved by %v", again.Sub(next))
			}
			p.conflict(errOf(first.Confirm(p.Context())))
			p.conflict(errOf(second.Confirm(p.Context())))
		}
	})
}

// Wait keeps the place for several times WaitTTL and tolerance. The entry stays after
// the end of its context, and the error names the holders in the way.
func TestTicketWait(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair(), waitTTL(100*time.Millisecond))
		writer := p.try(l, "write")
		ticket := p.enqueue(l, "read")
		ctx := p.within(5 * time.Second)
		for range 2 { // the second's context has ended before
			_, err := ticket.Wait(ctx)
			p.want(err, context.DeadlineExceeded)
			if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != writer.ID() {
				p.Errorf("in the way: %+v", c.Holders)
			}
		}
		if e := p.entries("read"); len(e) != 1 || e[0].held() {
			p.Errorf("the waiting entry: %+v", e)
		}
		call := begin(p, func() (doclock.Lease, error) { return ticket.Wait(p.Context()) })
		p.queued(l, 1)
		p.release(writer)
		lease := p.granted(call)
		p.wantEntries(lease)
		if again := p.got(ticket.Wait(p.Context())); again != lease {
			p.Errorf("Wait again: %v", again)
		}
	})
}

// Releases of the same process hand the lock over to waiting tickets in the order
// of their places, in whatever order they began to wait. All Waits of one ticket return
// one lease. All times are so long that no pause ends within the test.
func TestTicketWaitIsWokenByALocalRelease(t *testing.T) {
	virtual(t, func(p *place) {
		coll, w := p.watched()
		l := p.locker(coll, relations.Fair(), doclock.TTL(relayTTL), waitTTL(relayTTL))
		holder := p.try(l, "write")
		first, second, third := p.enqueue(l, "write"), p.enqueue(l, "read"), p.enqueue(l, "write")
		ctx := p.within(patience) // and not the relayTTL
		wait := func(n int, wait func(context.Context) (doclock.Lease, error)) *pending[doclock.Lease] {
			call := begin(p, func() (doclock.Lease, error) { return wait(ctx) })
			p.queued(l, n)
			return call
		}
		last, reader, next := wait(1, third.Wait), wait(2, second.Wait), wait(3, first.Wait)
		twice := begin(p, func() (doclock.Lease, error) { return third.Wait(ctx) })
		w.Take()
		for _, call := range []*pending[doclock.Lease]{next, reader, last} {
			p.release(holder)
			holder = p.granted(call)
		}
		if p.granted(twice) != holder {
			p.Error("the second Wait of a ticket has another lease")
		}
		p.release(holder)
		if sent := w.Take(); len(sent) > 8 {
			p.Errorf("four releases sent %v", sent)
		}
		p.wantEntries()
	})
}

// A Wait of a cancelled ticket ends, at the latest at its next confirm.
func TestTicketCancel(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair())
		writer := p.try(l, "write")
		ticket := p.enqueue(l, "read")
		call := begin(p, func() (doclock.Lease, error) { return ticket.Wait(p.Context()) })
		p.queued(l, 1)
		must(p, ticket.Cancel(p.Context()))
		p.wantEntries(writer)
		p.want(errOf(call.wait()), doclock.ErrReleased)
	})
}

// A ticket is granted after its caller has given up, by a confirm or by a handoff to its Wait: it
// has the lease, and Cancel releases it, or finds that it has ended. The ticket's methods may be
// called meanwhile. (The race detector is what fails.)
func TestTicketGrantedAfterItsCallerGaveUp(t *testing.T) {
	t.Parallel()
	for way, grant := range map[string]func(p *place, net *faultnet.Net, l locker, holder doclock.Lease, ticket *multilock.Ticket) (let func()){
		"a confirm": func(p *place, net *faultnet.Net, _ locker, holder doclock.Lease, ticket *multilock.Ticket) func() {
			p.release(holder)
			slow := p.giveUp(net, func(ctx context.Context) error { return errOf(ticket.Confirm(ctx)) }, doclock.ErrNotAcquired)
			return func() { must(p, slow.Let()) }
		},
		"a handoff": func(p *place, net *faultnet.Net, l locker, holder doclock.Lease, ticket *multilock.Ticket) func() {
			ctx, cancel := context.WithCancel(p.Context())
			call := begin(p, func() (doclock.Lease, error) { return ticket.Wait(ctx) })
			p.queued(l, 1)
			handoff := net.Arm(faultnet.DelayReply, "findAndModify")
			released := begin(p, func() (struct{}, error) { return struct{}{}, holder.Release(p.bounded()) })
			wait(p, handoff.Fired())
			cancel()
			p.want(errOf(call.wait()), context.Canceled, doclock.ErrNotAcquired, doclock.ErrConflict)
			return func() {
				must(p, handoff.Let())
				ok(p, errOf(released.wait()))
				p.eventually("the ticket is granted", ticket.Granted)
			}
		},
	} {
		for _, next := range []string{"confirmed", "cancelled", "lost and cancelled"} {
			virtually(t, way+", "+next, func(p *place) {
				coll, net := p.faulty()
				l := p.locker(coll, relations.Fair(), doclock.TTL(relayTTL), waitTTL(relayTTL))
				holder := p.try(l, "write")
				ticket := p.enqueue(l, "read")
				let := grant(p, net, l, holder, ticket)
				id := ticket.ID()
				reading := begin(p, func() (bool, error) {
					same := true
					for range 1000 {
						same = same && ticket.ID() == id && ticket.Tag() == "read" && !ticket.DocumentID().IsZero()
					}
					return same, nil
				})
				let()
				if same, _ := reading.wait(); !same {
					p.Error("the ticket is another one")
				}
				if next == "cancelled" {
					ok(p, ticket.Cancel(p.Context()))
					p.wantEntries()
					return
				}
				p.eventually("the ticket is granted", ticket.Granted)
				if next == "lost and cancelled" {
					time.Sleep(2 * relayTTL)
					other := p.try(l, "write")
					ok(p, ticket.Cancel(p.Context()))
					p.wantEntries(other)
					return
				}
				p.wantEntries(p.got(ticket.Confirm(p.Context())))
			})
		}
	}
}

// An Enqueue whose caller leaves while his ticket is on its way to him leaves no entry.
func TestEnqueueThatIsLeftWithItsTicket(t *testing.T) {
	virtual(t, func(p *place) {
		holder := p.try(p.plain(relations.Fair()), "write")
		ctx, cancel := context.WithCancel(p.Context())
		var answered atomic.Bool
		begun := time.Now()
		coll := p.Through(options.Client().SetMonitor(&driver.CommandMonitor{
			Succeeded: func(context.Context, *driver.CommandSucceededEvent) { answered.Store(true) },
		}))
		l := p.locker(coll, relations.Fair(), with(func(c *engine.Config) {
			c.Clock = func() engine.Reading {
				if answered.Load() { // the ticket's time is noted
					cancel()
				}
				return engine.Reading{Mono: time.Since(begun), Wall: time.Now().Round(0)}
			}
		}))
		_, err := l.Enqueue(ctx, flowers, "read")
		p.want(err, context.Canceled, doclock.ErrNotAcquired)
		p.rest(l)
		p.wantEntries(holder)
	})
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
			ann := p.locker(coll, relations.WritePreferring(), waitTTL(100*time.Millisecond), doclock.ClockTolerance(0))
			bob := p.locker(p.coll, relations.WritePreferring())
			readers := []doclock.Lease{p.try(bob, "read")}
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

// deciding is a document whose decoding runs the caller's code.
type deciding struct{ run func() }

func (d *deciding) UnmarshalBSON([]byte) error { d.run(); return nil }

// While one caller decodes the document, for a minute, the ticket answers him and others at
// once, or at the end of their context. Then all of them have the lease.
func TestATicketAnswersWhileADocumentIsDecoded(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair(), doclock.TTL(time.Hour))
		var ticket *multilock.Ticket
		decoding, others := make(chan struct{}), make(chan struct{})
		into := &deciding{func() {
			if !ticket.Granted() || ticket.RetryAt().IsZero() {
				p.Errorf("inside the decoding: granted %v, retry at %v", ticket.Granted(), ticket.RetryAt())
			}
			ok(p, ticket.Cancel(p.Context()))
			p.want(errOf(ticket.Confirm(p.within(time.Second))), doclock.ErrNotAcquired, context.DeadlineExceeded)
			close(decoding)
			<-others
		}}
		holder := p.try(l, "write")
		ticket = p.enqueue(l, "write", doclock.Into(into))
		p.release(holder)
		first := begin(p, func() (doclock.Lease, error) { return ticket.Confirm(p.Context()) })
		wait(p, decoding)
		for name, call := range map[string]func(context.Context) error{
			"Confirm": func(ctx context.Context) error { return errOf(ticket.Confirm(ctx)) },
			"Wait":    func(ctx context.Context) error { return errOf(ticket.Wait(ctx)) },
		} {
			begun := time.Now()
			p.want(call(p.within(time.Second)), doclock.ErrNotAcquired, context.DeadlineExceeded)
			if took := time.Since(begun); took != time.Second {
				p.Errorf("%s with a context of a second returned after %v", name, took)
			}
		}
		second := begin(p, func() (doclock.Lease, error) { return ticket.Confirm(p.Context()) })
		time.Sleep(time.Minute)
		close(others)
		lease := p.granted(first)
		if p.granted(second) != lease {
			p.Error("another caller has another lease")
		}
		p.release(lease)
	})
}
