package multilock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func acquire(t testing.TB, ctx context.Context, l *multilock.Locker, tag string, opts ...doclock.AcquireOption) *pending[*doclock.Lease] {
	return begin(t, func() (*doclock.Lease, error) { return l.Acquire(ctx, flowers, tag, opts...) })
}

// granted demands that a call returns a lease.
func (p *place) granted(call *pending[*doclock.Lease]) *doclock.Lease {
	p.Helper()
	lease, err := call.wait()
	if err != nil {
		p.Fatal(err)
	}
	return lease
}

// waiting waits until a tag has a waiting entry in the document.
func (p *place) waiting(tag string) (id string) {
	p.Helper()
	p.eventually("an entry waits", func() bool {
		for _, e := range p.entries(tag) {
			if !e.held() {
				id = string(e.ID.Data)
				return true
			}
		}
		return false
	})
	return id
}

func TestAcquireWaitsForARelease(t *testing.T) {
	t.Parallel()
	for _, rules := range []relations.Rules{relations.Exclusive(), relations.WritePreferring(), relations.Fair()} {
		p := newPlace(t)
		coll, w := p.watched()
		l := p.locker(coll, rules)
		holder := p.try(p.locker(p.coll, rules), "write")
		call := acquire(t, p.bounded(), l, "write")
		p.eventually("it asks a few times", func() bool { return w.count() > 3 })
		select {
		case <-call.done:
			t.Fatalf("it did not wait: %v", call.err)
		default:
		}
		p.release(holder)
		lease, err := call.wait()
		if err != nil {
			t.Fatal(err)
		}
		p.wantEntries(lease)
		if lease.Fence() <= holder.Fence() {
			t.Errorf("the fencing token went from %d to %d", holder.Fence(), lease.Fence())
		}
	}
}

// The lock becomes free when its holder's time and the tolerance are over. It is
// granted then, not before and not much later.
func TestAcquireWaitsForAnExpiry(t *testing.T) {
	t.Parallel()
	for _, rules := range []relations.Rules{relations.Exclusive(), relations.Fair()} {
		p := newPlace(t)
		opts := []doclock.Option{short(200 * time.Millisecond), doclock.ClockTolerance(100 * time.Millisecond)}
		p.try(p.locker(p.coll, rules, opts...), "write")
		old := p.entries("write")[0]
		lease, err := p.locker(p.coll, rules, doclock.TTL(5*time.Second)).Acquire(p.bounded(), flowers, "write")
		if err != nil {
			t.Fatal(err)
		}
		p.wantEntries(lease)
		granted := p.entries("write")[0].Expires.Add(-5*time.Second - 500*time.Millisecond)
		if granted.Before(old.Expires) {
			t.Errorf("granted %v before the holder's entry expired", old.Expires.Sub(granted))
		}
		if late := granted.Sub(old.Expires); late > time.Second {
			t.Errorf("granted %v after the holder's entry expired", late)
		}
	}
}

// An Acquire whose context ends returns the context's error and names the
// holders in its way. No entry stays in the document.
func TestAcquireJoinsItsContextsErrorWithTheLastConflict(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user has left")
	for name, rules := range map[string]relations.Rules{"refused": relations.Exclusive(), "with an entry": relations.Fair()} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			l := p.locker(p.coll, rules)
			holder := p.try(l, "write")

			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
			defer cancel()
			lease, err := l.Acquire(ctx, flowers, "write")
			p.want(err, context.DeadlineExceeded)
			if c := p.conflict(err); lease != nil || len(c.Holders) != 1 || c.Holders[0].ID != holder.ID() {
				t.Errorf("lease %v, in the way: %+v", lease, c.Holders)
			}

			own, stop := context.WithCancelCause(t.Context())
			call := begin(t, func() (*doclock.Lease, error) { return l.Acquire(own, flowers, "write") })
			if name == "with an entry" {
				p.waiting("write")
			}
			time.AfterFunc(50*time.Millisecond, func() { stop(cause) })
			_, err = call.wait()
			p.want(err, cause)
			p.rest(l)
			p.wantEntries(holder)
		})
	}
}

// An Acquire that is cut off during a poll names them as well.
func TestAcquireCutOffDuringAPollNamesThoseInTheWay(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]relations.Rules{"acquire": relations.Exclusive(), "confirm": relations.Fair()} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			coll, net := p.faulty()
			holder := p.try(p.locker(p.coll, rules), "write")
			l := p.locker(coll, rules)
			asked := 0
			slow := net.ArmWhere(faultnet.DelayReply, func(command string, _ bson.Raw) bool {
				if command == "findAndModify" {
					asked++
				}
				return asked == 3
			})
			ctx, cancel := context.WithCancel(t.Context())
			call := acquire(t, ctx, l, "write")
			wait(t, slow.Fired())
			cancel()
			_, err := call.wait()
			p.want(err, context.Canceled, doclock.ErrNotAcquired)
			if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != holder.ID() {
				t.Errorf("in the way: %+v", c.Holders)
			}
			if err := slow.Let(); err != nil {
				t.Fatal(err)
			}
			p.rest(l)
			p.wantEntries(holder)
		})
	}
}

// A waiter whose entry was pruned joins the end of the document queue with a new
// entry: an id serves one entry only.
func TestAcquireWhoseEntryWasPrunedStartsAgainUnderANewID(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	holder := p.try(l, "write")
	call := acquire(t, p.bounded(), l, "read")
	first := p.waiting("read")
	p.erase("read")
	second := p.waiting("read")
	if first == second {
		t.Error("the pruned entry's id is used again")
	}
	p.release(holder)
	lease, err := call.wait()
	if err != nil {
		t.Fatal(err)
	}
	if id := lease.ID(); string(id[:]) != second {
		t.Errorf("the lease's id is %x, the entry's was %x", id, second)
	}
	p.wantEntries(lease)
}

func TestAcquireOfADocumentThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, rules := range []relations.Rules{relations.Exclusive(), relations.Fair()} {
		p := newPlace(t)
		coll, w := p.watched()
		p.try(p.locker(p.coll, rules), "write")
		call := acquire(t, p.bounded(), p.locker(coll, rules), "write")
		p.eventually("it waits", func() bool { return w.count() > 2 })
		p.remove()
		_, err := call.wait()
		p.want(err, doclock.ErrNotFound)
	}
}

// A refused Acquire asks with the caller's filter: a document that no longer
// matches is not found. It asks for the document that it met first.
func TestAcquirePollsTheDocumentItMetWithTheCallersFilter(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	p.try(p.locker(p.coll, relations.Exclusive()), "write")
	call := begin(t, func() (*doclock.Lease, error) { return l.Acquire(p.bounded(), byName, "write") })
	p.eventually("it waits", func() bool { return w.count() > 2 })
	if _, err := p.coll.InsertOne(t.Context(), bson.M{"_id": 0, "name": "flowers"}); err != nil {
		t.Fatal(err)
	}
	w.commands()
	p.eventually("it asks again", func() bool { return w.count() > 2 })
	select {
	case <-call.done:
		t.Fatalf("it went over to another document: %v", call.err)
	default:
	}
	p.change(bson.M{"$set": bson.M{"name": "weeds"}})
	_, err := call.wait()
	p.want(err, doclock.ErrNotFound)
}

// The lease is pinned to the _id. The filter may stop matching while the lock is
// held, or while its entry waits.
func TestFilterMayStopMatching(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	holder, err := l.TryAcquire(t.Context(), byName, "write")
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := l.Enqueue(t.Context(), byName, "write")
	if err != nil {
		t.Fatal(err)
	}
	p.change(bson.M{"$set": bson.M{"name": "weeds"}})
	p.release(holder)
	lease, err := ticket.Confirm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.release(lease)
	p.wantEntries()
}
