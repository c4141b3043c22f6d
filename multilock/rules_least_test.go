package multilock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
)

// Rule 25: HoldAtLeast is a time that the grant writes down.

const leastTolerance = 500 * time.Millisecond

// However a lease with HoldAtLeast was acquired and is released, others are kept
// out until its time and no longer.
func TestRule25OthersAreKeptOut(t *testing.T) {
	t.Parallel()
	for wayName, way := range ways {
		for name, release := range handoffs {
			t.Run(wayName+", "+name, func(t *testing.T) {
				t.Parallel()
				p, at := newPlace(t), &clock{}
				ours, theirs := p.locker(p.coll, relations.Fair(), at.drive()), p.locker(p.coll, relations.Fair(), at.drive())
				lease := way(p, ours, doclock.HoldAtLeast(time.Hour-time.Nanosecond), doclock.Owner("the first machine"))
				granted := at.Now()
				at.Pass(time.Second)
				must(p, release.release(lease))
				p.want(lease.Err(), doclock.ErrReleased)

				at.Pass(time.Hour - 2*time.Second)
				_, err := theirs.TryAcquire(p.bounded(), flowers, "write")
				c := p.conflict(err)
				rest := time.Second + leastTolerance
				if h := c.Holders[0]; len(c.Holders) != 1 || h.Owner != "the first machine" || h.Waiting || h.Remaining != rest || h.AtLeast != rest || c.RetryAfter != rest {
					t.Errorf("the conflict is %+v", c)
				}
				if id := c.Holders[0].ID; id == lease.ID() {
					t.Error("the remainder has the lease's id")
				}
				if text := "for at least 1.5s"; !strings.Contains(err.Error(), text) {
					t.Errorf("%q doesn't say %q", err, text)
				}
				if left := granted.Add(time.Hour + leastTolerance).Sub(at.Now()); left != rest {
					t.Errorf("%v left", left)
				}
				at.Pass(rest - time.Millisecond)
				p.want(errOf(theirs.TryAcquire(p.bounded(), flowers, "write")), doclock.ErrConflict)
				at.Pass(time.Millisecond)
				p.release(p.try(theirs, "write"))
			})
		}
	}
}

// The lease itself is valid for its TTL and no longer. A holder that crashed
// keeps others out until the time, or until its entry expires, if that is later.
func TestRule25ALeaseIsValidForItsTTL(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ least, free time.Duration }{
		"longer than the TTL":  {time.Hour, time.Hour + leastTolerance},
		"shorter than the TTL": {time.Second, calm + leastTolerance},
	} {
		virtually(t, name, func(p *place) {
			begun := time.Now()
			lease := p.try(p.locker(p.coll, relations.Exclusive()), "write", doclock.HoldAtLeast(c.least))
			<-lease.Done()
			if passed := time.Since(begun); passed != calm-time.Millisecond {
				p.Errorf("valid for %v", passed)
			}
			theirs := p.locker(p.coll, relations.Exclusive())
			time.Sleep(time.Until(begun.Add(c.free - time.Millisecond)))
			p.want(errOf(theirs.TryAcquire(p.Context(), flowers, "write")), doclock.ErrConflict)
			time.Sleep(time.Millisecond)
			p.try(theirs, "write")
			p.want(lease.Release(p.Context()), doclock.ErrLost)
		})
	}
}

// What no caller got leaves no remainder: a lease whose document can't be
// decoded, a ticket that is cancelled, and a waiter that gave up.
func TestRule25WhatNobodyHeldLeavesNothing(t *testing.T) {
	t.Parallel()
	hold := doclock.HoldAtLeast(time.Hour)
	for name, deed := range map[string]func(p *place, l locker){
		"a document that can't be decoded": func(p *place, l locker) {
			var into struct{ Name int }
			for _, acquire := range []func(context.Context, any, string, ...doclock.AcquireOption) (*doclock.Lease, error){l.TryAcquire, l.Acquire} {
				p.want(errOf(acquire(p.bounded(), flowers, "write", hold, doclock.Into(&into))), doclock.ErrNotAcquired)
				p.eventually("it is released", func() bool { return len(p.entries()) == 0 })
			}
		},
		"a ticket that is cancelled": func(p *place, l locker) {
			first := p.try(l, "write")
			ticket := p.enqueue(l, "write", hold)
			p.release(first)
			ok(p, ticket.Cancel(p.bounded()))
		},
		"a waiter that gave up as it was handed the lock": func(p *place, l locker) {
			first := p.try(l, "write")
			ok(p, l.GiveUp(p.bounded(), flowers, "write", func() { p.release(first) }, hold))
		},
		"one of several that can't all be had": func(p *place, l locker) {
			beside := l.Want(doclock.ID("zzz, which is missing"), "write")
			p.want(errOf(multilock.AcquireAll(p.bounded(), l.Want(flowers, "write", hold), beside)), doclock.ErrNotAcquired, doclock.ErrNotFound)
			p.wantEntries()
		},
		"one of several, which was renewed while another was waited for": func(p *place, l locker) {
			other, others := doclock.ID("zzz"), p.locker(p.coll, relations.Fair())
			must(p, errOf(p.coll.InsertOne(p.bounded(), other)))
			holder := p.got(others.TryAcquire(p.bounded(), other, "write"))
			_, err := multilock.AcquireAll(p.bounded(), l.Want(flowers, "write", hold, doclock.TTL(time.Second)), l.Want(other, "write", doclock.MaxWait(time.Second)))
			p.want(err, doclock.ErrNotAcquired, doclock.ErrConflict)
			p.wantEntries()
			p.release(holder)
		},
	} {
		virtually(t, name, func(p *place) {
			l := p.locker(p.coll, relations.Fair())
			deed(p, l)
			p.eventually("it is removed", func() bool { return len(p.entries()) == 0 })
		})
	}
}

// A lock that may leave a remainder is handed over to no waiter. The waiter asks
// for itself, and is granted when the time is over.
func TestRule25AWaiterWaitsForTheTime(t *testing.T) {
	t.Parallel()
	for name, release := range handoffs {
		virtually(t, name, func(p *place) {
			l := p.plain(relations.Exclusive())
			begun := time.Now()
			const least = engine.DefaultTTL / 2 // so that the entry would live longer
			lease := p.try(l, "write", doclock.HoldAtLeast(least))
			waiter := acquire(p, p.Context(), l, "write")
			p.queued(l, 1)
			must(p, release.release(lease))
			p.wantEntries(p.granted(waiter))
			if waited := time.Since(begun); waited < least || waited > least+2*time.Second {
				p.Errorf("let in after %v", waited)
			}
			if e := p.entries("write")[0]; !e.Until.IsZero() {
				p.Errorf("the waiter's entry has a time: %v", e)
			}
		})
	}
}
