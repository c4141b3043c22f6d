package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The lock becomes free when its holder's time and the tolerance are over. It is
// granted then, not before and not much later.
func TestAcquireWaitsForAnExpiry(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]relations.Rules{"refused": relations.Exclusive(), "queued": relations.Fair()} {
		virtually(t, name, func(p *place) {
			p.try(p.locker(p.coll, rules, doclock.TTL(time.Minute), doclock.ClockTolerance(10*time.Second)), "write")
			begun := time.Now()
			lease := p.acquire(p.locker(p.coll, rules), "write")
			p.wantEntries(lease)
			if took := time.Since(begun); took < 70*time.Second || took > 71*time.Second {
				p.Errorf("granted after %v", took)
			}
		})
	}
}

// A waiter whose entry was pruned joins the end of the document queue with a new
// entry: an id serves one entry only.
func TestAcquireWhoseEntryWasPrunedStartsAgainUnderANewID(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair())
		holder := p.try(l, "write")
		call := acquire(p, p.bounded(), l, "read")
		first := p.waiting("read")
		p.erase("read")
		second := p.waiting("read")
		if first == second {
			p.Error("the pruned entry's id is used again")
		}
		p.release(holder)
		lease := p.granted(call)
		if id := lease.ID(); string(id[:]) != second {
			p.Errorf("the lease's id is %x, the entry's was %x", id, second)
		}
		p.wantEntries(lease)
	})
}

// A refused Acquire asks with the caller's filter: a document that no longer
// matches is not found. It asks for the document that it met first.
func TestAcquirePollsTheDocumentItMetWithTheCallersFilter(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*place){
		"no match": func(p *place) { p.Change(bson.M{"$set": bson.M{"name": "weeds"}}) },
		"deleted":  func(p *place) { p.Delete() },
	} {
		virtually(t, name, func(p *place) {
			p.try(p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Hour)), "write")
			call := begin(p, func() (*doclock.Lease, error) {
				return p.plain(relations.Exclusive()).Acquire(p.Context(), byName, "write")
			})
			time.Sleep(time.Minute)
			_, err := p.coll.InsertOne(p.Context(), bson.M{"_id": 0, "name": "flowers"})
			must(p, err)
			time.Sleep(time.Minute)
			select {
			case <-call.done:
				p.Fatalf("it went over to another document: %v", call.err)
			default:
			}
			leave(p)
			p.want(errOf(call.wait()), doclock.ErrNotFound)
		})
	}
}

// The lease is pinned to the _id. The filter may stop matching while the lock is
// held, or while its entry waits.
func TestFilterMayStopMatching(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	holder := p.got(l.TryAcquire(t.Context(), byName, "write"))
	ticket, err := l.Enqueue(t.Context(), byName, "write")
	must(t, err)
	p.Change(bson.M{"$set": bson.M{"name": "weeds"}})
	p.release(holder)
	p.release(p.got(ticket.Confirm(t.Context())))
	p.wantEntries()
}

// A caller who gives up before an answer of its own is told whom its process knows to be in the way.
func TestAWaitThatRanOutNamesTheHolder(t *testing.T) {
	t.Parallel()
	for name, ask := range asks {
		virtually(t, name, func(p *place) {
			l := p.locker(p.coll, relations.Exclusive())
			holder := p.try(p.locker(p.coll, relations.Exclusive()), "write")
			acquire(p, p.Context(), l, "write", doclock.MaxWait(time.Minute))
			p.queued(l, 1)
			p.mem.Delay(1, time.Second)
			ctx := p.within(time.Millisecond)
			err := errOf(ask(l, ctx, flowers, "write"))
			p.want(err, context.DeadlineExceeded)
			if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != holder.ID() {
				p.Errorf("in the way: %+v", c.Holders)
			}
		})
	}
}
