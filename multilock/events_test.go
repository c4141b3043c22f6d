package multilock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The life of a lease, with what each event says.
func TestEventsOfALease(t *testing.T) {
	virtual(t, func(p *place) {
		h, option := p.heard()
		l := p.locker(p.coll, relations.Exclusive(), option, doclock.Owner("ann"))
		p.mem.Delay(1, time.Second)
		lease := p.try(l, "write")
		granted := time.Now()
		time.Sleep(time.Second)
		must(p, lease.Renew(p.Context()))
		p.release(lease)
		for i, e := range h.want("granted 1", "renewed 1", "released 2") {
			want := doclock.Event{
				Kind: e.Kind, Commands: e.Commands, Collection: p.coll.Database().Name() + "." + p.coll.Name(), DocumentID: lease.DocumentID(),
				Tag: "write", Owner: "ann", LeaseID: lease.ID(), Fence: lease.Fence(), Time: granted.Add(time.Second), Held: time.Second,
			}
			if i == 0 {
				want.Time, want.Held, want.Waited = granted, 0, time.Second
			}
			if got, want := fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", want); got != want {
				p.Errorf("got %s\nwant %s", got, want)
			}
		}

		lease = p.try(l, "write", doclock.Owner("bob"))
		p.want(errOf(l.TryAcquire(p.Context(), flowers, "write")), doclock.ErrConflict)
		p.want(errOf(l.TryAcquire(p.Context(), doclock.ID(7), "write")), doclock.ErrNotFound)
		p.erase("write")
		p.want(lease.Release(p.Context()), doclock.ErrLost)
		all := h.want("granted 1", "refused 1", "refused 1", "lost 1")
		if refused := all[1]; all[0].Owner != "bob" || len(refused.Holders) != 1 || refused.Holders[0].Owner != "bob" ||
			refused.LeaseID != uuid.Nil || !refused.DocumentID.Equal(lease.DocumentID()) {
			p.Errorf("granted %+v, refused %+v", all[0], refused)
		}
		p.want(all[1].Err, doclock.ErrConflict)
		p.want(all[2].Err, doclock.ErrNotFound, doclock.ErrNotAcquired)
		p.want(all[3].Err, doclock.ErrLost)

		// A call that is refused before it begins sends no event.
		p.want(errOf(l.TryAcquire(p.Context(), flowers, "no tag")), doclock.ErrInvalidArgument)
		over, cancel := context.WithCancel(p.Context())
		cancel()
		p.want(errOf(l.Acquire(over, flowers, "write")), context.Canceled)
		p.rest(l)
		p.want(errOf(l.Acquire(p.Context(), flowers, "write")), doclock.ErrClosed)
		h.want()
	})
}

// An acquire whose caller has left has no event after its end, whatever its command is
// answered with.
func TestNoEventAfterTheEnd(t *testing.T) {
	virtual(t, func(p *place) {
		h, option := p.heard()
		l, others := p.locker(p.coll, relations.Exclusive(), option), p.plain(relations.Exclusive())
		p.acquire(others, "write")
		p.mem.Delay(1, time.Second, locktest.Acquires)
		ctx, cancel := context.WithTimeout(p.Context(), 500*time.Millisecond)
		defer cancel()
		p.want(errOf(l.Acquire(ctx, byName, "write")), context.DeadlineExceeded) // which would wait in its queue
		time.Sleep(10 * time.Second)
		h.want("gave up 1")
	})
}

// Without an observer an acquire allocates nothing for one, and reads no clock.
func TestNoObserver(t *testing.T) {
	p := newPlace(t)
	readings := 0
	l := p.locker(p.coll, relations.Exclusive(), with(func(c *engine.Config) {
		c.Clock = func() engine.Reading { readings++; return engine.Reading{} }
	}))
	ctx := t.Context()
	n := testing.AllocsPerRun(100, func() {
		if !l.ObserveNobody(ctx) {
			t.Error("commands are counted")
		}
	})
	if n > 0 || readings > 0 {
		t.Errorf("%v allocations, %d readings of the clock", n, readings)
	}
}

// Each command is counted where it is sent: repeats too, and those that make the
// document.
func TestEventsCountCommands(t *testing.T) {
	virtual(t, func(p *place) {
		coll, w := p.watched()
		h, option := p.heard()
		l := p.locker(coll, relations.Exclusive(), option, doclock.Upsert())
		counted := func(n int, want ...string) {
			p.Helper()
			all := h.want(want...)
			if got := all[len(all)-1].Commands; got != n || w.Count() != n {
				p.Errorf("%q: %d events, sent %v, want %d", want, got, w.Take(), n)
			}
			w.Take()
		}
		lease := p.got(l.TryAcquire(p.Context(), bson.M{"_id": "new"}, "write"))
		counted(3, "granted")
		p.mem.LoseReplies(1, locktest.Renewals)
		must(p, lease.Renew(p.Context()))
		h.want("renewal failed 1", "renewed 2")
		p.mem.LoseReplies(1, locktest.Releases)
		p.release(lease)
		counted(5, "released") // with the read that shows no break
		p.mem.LoseReplies(1, locktest.Acquires)
		p.try(l, "write")
		counted(2, "granted")
	})
}

// A ticket's cancel whose caller gives up is of unknown outcome. Another caller who
// gives up waiting for the same removal gets that error too, but no second event.
func TestEventsOfACancelOfUnknownOutcome(t *testing.T) {
	virtual(t, func(p *place) {
		h, option := p.heard()
		p.try(p.locker(p.coll, relations.Fair()), "write")
		l := p.locker(p.coll, relations.Fair(), option)
		ticket := p.enqueue(l, "write")
		p.mem.Delay(1, time.Minute, locktest.CleanUps, locktest.Releases)
		ctx := p.within(time.Second)
		p.want(ticket.Cancel(ctx), doclock.ErrOutcomeUnknown, context.DeadlineExceeded)
		if e := h.want("waiting 1", "gave up 1", "outcome unknown 1")[2]; !errors.Is(e.Err, context.DeadlineExceeded) || !e.DocumentID.Equal(ticket.DocumentID()) || e.Tag != "write" {
			p.Errorf("unknown: %+v", e)
		}
		p.want(ticket.Cancel(ctx), doclock.ErrOutcomeUnknown)
		must(p, ticket.Cancel(p.Context()))
		p.rest(l)
		h.want()
	})
}

// A wait that takes a Locker's TTL has one event, with the holders in the way. One that
// ends before is not, and neither is a claim or a ticket.
func TestALongWaitIsToldOnce(t *testing.T) {
	const ttl = 10 * time.Second
	byRange := bson.M{"_id": bson.M{"$lt": 2}} // a filter that doesn't pin the document
	do := func(filter any, opts ...doclock.AcquireOption) func(context.Context, *multilock.Locker) error {
		return func(ctx context.Context, l *multilock.Locker) error {
			return l.Do(ctx, filter, "write", func(context.Context, doclock.Lease) error { return nil }, opts...)
		}
	}
	for name, c := range map[string]struct {
		acquire func(context.Context, *multilock.Locker) error
		held    time.Duration
		events  int
	}{
		"Do":                {do(flowers), 5 * ttl, 1},
		"by another filter": {do(byRange), 5 * ttl, 1},
		"granted before":    {do(flowers), ttl / 2, 0},
		"given up before":   {do(flowers, doclock.MaxWait(ttl-time.Second)), 5 * ttl, 0},
		"given up after":    {do(flowers, doclock.MaxWait(2*ttl)), 5 * ttl, 1},
		"a claim":           {do(byRange, doclock.SkipLocked()), 5 * ttl, 0},
		"one want of several": {func(ctx context.Context, l *multilock.Locker) error {
			return multilock.DoAll(ctx, func(context.Context, multilock.Leases) error { return nil }, l.Want(flowers, "write"), l.Want(doclock.ID(2), "write"))
		}, 5 * ttl, 1},
		"a ticket": {func(ctx context.Context, l *multilock.Locker) error {
			ticket, err := l.Enqueue(ctx, flowers, "write")
			if err != nil {
				return err
			}
			held, err := ticket.Wait(ctx)
			if err != nil {
				return err
			}
			return held.Release(ctx)
		}, 5 * ttl, 0},
	} {
		for process, ours := range map[string]bool{"the holder's process": true, "another": false} {
			virtually(t, name+" in "+process, func(p *place) {
				h, hear := p.heard()
				l := p.plain(relations.Fair(), doclock.TTL(ttl), hear)
				holder := l
				if !ours {
					holder = p.plain(relations.Fair(), doclock.TTL(ttl), doclock.Owner("ann"))
				}
				held := p.try(holder, "write")
				held.KeepAlive(p.Context())
				begun := time.Now()
				time.AfterFunc(c.held, func() { ok(p, held.Release(p.Context())) })
				if err := c.acquire(p.Context(), l); err != nil && !errors.Is(err, doclock.ErrConflict) {
					p.Error(err)
				}
				time.Sleep(5 * ttl)
				synctest.Wait()
				events, over := 0, false
				for _, e := range h.all {
					over = over || e.Kind == doclock.EventNotGranted || e.Kind == doclock.EventGranted && e.LeaseID != held.ID()
					if e.How != doclock.HowStill {
						continue
					}
					events++
					if over || !e.Time.Equal(begun.Add(ttl)) || e.Waited != ttl || len(e.Holders) != 1 || e.Holders[0].ID != held.ID() || e.DocumentID.AsInt64() != 1 || e.Commands == 0 && !ours {
						p.Errorf("got %+v, after the end: %v", e, over)
					}
				}
				if events != c.events {
					p.Errorf("%d events: %+v", events, h.all)
				}
			})
		}
	}
}

// A waiter asks as often as PollInterval says, once it has waited for long, and so does a claim.
func TestPollInterval(t *testing.T) {
	for _, longest := range []time.Duration{20 * time.Millisecond, 0, 20 * time.Second} {
		for name, opts := range map[string][]doclock.AcquireOption{"an acquire": nil, "a claim": {doclock.SkipLocked()}} {
			virtually(t, fmt.Sprint(name, ", ", longest), func(p *place) {
				coll, w := p.watched()
				var asks []doclock.Option
				if longest > 0 {
					asks = append(asks, doclock.PollInterval(longest))
				}
				l := p.locker(coll, relations.Exclusive(), asks...)
				held := p.try(p.locker(p.coll, relations.Exclusive(), doclock.TTL(doclock.MaxTTL)), "write")
				want := cmp.Or(longest, time.Second)
				ctx := p.within(30 * want)
				done := make(chan error)
				go func() { done <- errOf(l.Acquire(ctx, flowers, "write", opts...)) }()
				time.Sleep(15 * want)
				w.Take()
				time.Sleep(12 * want)
				if pause := 12 * want / time.Duration(w.Count()); pause < want/2 || pause > want*3/2 {
					p.Errorf("it asks every %v, and should every %v", pause, want)
				}
				p.want(<-done, context.DeadlineExceeded)
				p.release(held)
			})
		}
	}
}

// What a claim sweeps in the background doesn't count for it.
func TestEventsCountNoSweep(t *testing.T) {
	t.Parallel()
	onCluster(t, func(p *place) {
		h, hear := p.heard()
		l := p.plain(relations.Exclusive(), hear)
		time.Sleep(11 * time.Second) // a sweep is due
		slow := &deciding{func() { time.Sleep(time.Second) }}
		p.release(p.got(l.TryAcquire(p.Context(), byName, "write", doclock.SkipLocked(), doclock.Into(slow))))
		h.want("granted 1", "released 1")
	})
}
