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
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

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
					over = over || e.Kind == doclock.EventGaveUp || e.Kind == doclock.EventGranted && e.LeaseID != held.ID()
					if e.Kind != doclock.EventStillWaiting {
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
				ctx := p.within(10 * time.Minute)
				done := make(chan error)
				go func() { done <- errOf(l.Acquire(ctx, flowers, "write", opts...)) }()
				time.Sleep(5 * time.Minute)
				w.Take()
				time.Sleep(4 * time.Minute)
				pause := 4 * time.Minute / time.Duration(w.Count())
				if want := cmp.Or(longest, time.Second); pause < want/2 || pause > want*3/2 {
					p.Errorf("it asks every %v, and should every %v", pause, want)
				}
				p.want(<-done, context.DeadlineExceeded)
				p.release(held)
			})
		}
	}
}
