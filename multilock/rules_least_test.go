package multilock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Rule 25: HoldAtLeast is a time that the grant writes down.

const leastTolerance = 500 * time.Millisecond

// However a lease with HoldAtLeast was acquired and is released, others are kept
// out until its time and no longer.
func TestRule25OthersAreKeptOut(t *testing.T) {
	t.Parallel()
	releases := map[string]func(*doclock.Lease) error{
		"Release":  func(l *doclock.Lease) error { return l.Release(context.Background()) },
		"classic":  func(l *doclock.Lease) error { return l.UpdateAndRelease(context.Background(), plusOne) },
		"pipeline": func(l *doclock.Lease) error { return l.UpdateAndRelease(context.Background(), plusOneInAPipeline) },
	}
	for wayName, way := range ways {
		for name, release := range releases {
			t.Run(wayName+", "+name, func(t *testing.T) {
				t.Parallel()
				p, at := newPlace(t), newClock()
				ours, theirs := p.locker(p.coll, relations.Fair(), at.drive()), p.locker(p.coll, relations.Fair(), at.drive())
				lease := way(p, ours, doclock.HoldAtLeast(time.Hour-time.Nanosecond), doclock.OwnedBy("the first machine"))
				granted := at.now()
				at.pass(time.Second)
				if err := release(lease); err != nil {
					t.Fatal(err)
				}
				p.want(lease.Err(), doclock.ErrReleased)

				at.pass(time.Hour - 2*time.Second)
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
				if left := granted.Add(time.Hour + leastTolerance).Sub(at.now()); left != rest {
					t.Errorf("%v left", left)
				}
				at.pass(rest - time.Millisecond)
				_, err = theirs.TryAcquire(p.bounded(), flowers, "write")
				p.want(err, doclock.ErrConflict)
				at.pass(time.Millisecond)
				p.release(p.try(theirs, "write"))
			})
		}
	}
}

// A holder with HoldAtLeast is shown as one, and a conflict with another holder
// says nothing of a time.
func TestRule25AConflictShowsTheTime(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.Exclusive(), at.drive(), doclock.TTL(time.Hour))
	lease := p.try(l, "write", doclock.HoldAtLeast(time.Minute))
	_, err := l.TryAcquire(p.bounded(), flowers, "write")
	if h := p.conflict(err).Holders[0]; h.ID != lease.ID() || h.AtLeast != time.Minute+leastTolerance || h.Remaining != time.Hour+leastTolerance {
		t.Errorf("%+v", h)
	}
	at.pass(2 * time.Minute)
	_, err = l.TryAcquire(p.bounded(), flowers, "write")
	if h := p.conflict(err).Holders[0]; h.AtLeast != 0 || strings.Contains(err.Error(), "at least") {
		t.Errorf("after the time: %+v, %v", h, err)
	}
	p.release(lease)
	p.release(p.try(l, "write"))
}

// The lease itself is valid for its TTL and no longer. A holder that crashed
// keeps others out until the time, or until its entry expires, if that is later.
func TestRule25ALeaseIsValidForItsTTL(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ least, free time.Duration }{
		"longer than the TTL":  {time.Hour, time.Hour + leastTolerance},
		"shorter than the TTL": {time.Second, 10*time.Second + leastTolerance},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, at, turn := newPlace(t), newClock(), &turned{}
			l := p.locker(p.coll, relations.Exclusive(), at.drive(), turn.option)
			lease := p.try(l, "write", doclock.HoldAtLeast(c.least))
			if left := lease.Remaining(); left != 10*time.Second-time.Millisecond {
				t.Errorf("%v left", left)
			}
			turn.pass(10 * time.Second)
			p.want(lease.Err(), doclock.ErrLost)
			at.pass(c.free - time.Millisecond)
			theirs := p.locker(p.coll, relations.Exclusive(), at.drive())
			_, err := theirs.TryAcquire(p.bounded(), flowers, "write")
			p.want(err, doclock.ErrConflict)
			at.pass(time.Millisecond)
			p.release(p.try(theirs, "write"))
			if err := lease.Release(t.Context()); !errors.Is(err, doclock.ErrLost) {
				t.Errorf("Release = %v", err)
			}
		})
	}
}

// Renewals never shorten the time, alone or in a batch, and the release after them
// still leaves the remainder.
func TestRule25RenewalsKeepTheTime(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.Exclusive(), at.drive())
	lease := p.try(l, "write", doclock.HoldAtLeast(time.Minute))
	want := at.now().Add(time.Minute + leastTolerance)
	for range 3 {
		at.pass(time.Second)
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e := p.byTerms()[0]; !e.Until.Equal(want) || !e.Expires.Equal(want) {
			t.Errorf("there is %+v", e)
		}
	}
	at.pass(55 * time.Second)
	if err := lease.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := p.byTerms()[0]; !e.Until.Equal(want) || !e.Expires.Equal(at.now().Add(10*time.Second+leastTolerance)) {
		t.Errorf("there is %+v", e)
	}
	p.release(lease)
	if e := p.byTerms()[0]; !e.Until.Equal(want) || !e.Expires.Equal(want) {
		t.Errorf("the remainder is %+v", e)
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
				_, err := acquire(p.bounded(), flowers, "write", hold, doclock.Into(&into))
				p.want(err, doclock.ErrNotAcquired)
				p.eventually("it is released", func() bool { return len(p.entries()) == 0 })
			}
		},
		"a ticket that is cancelled": func(p *place, l locker) {
			first := p.try(l, "write")
			ticket := p.enqueue(l, "write", hold)
			p.release(first)
			if err := ticket.Cancel(p.bounded()); err != nil {
				p.Error(err)
			}
		},
		"a waiter that gave up as it was handed the lock": func(p *place, l locker) {
			first := p.try(l, "write")
			err := l.GiveUp(p.bounded(), flowers, "write", func() error { return first.Release(context.Background()) }, hold)
			if err != nil {
				p.Error(err)
			}
		},
		"one of several that can't all be had": func(p *place, l locker) {
			beside := l.Want(doclock.ID("zzz, which is missing"), "write")
			_, err := multilock.AcquireAll(p.bounded(), l.Want(flowers, "write", hold), beside)
			p.want(err, doclock.ErrNotAcquired, doclock.ErrNotFound)
			p.wantEntries()
		},
		"one of several, which was renewed while another was waited for": func(p *place, l locker) {
			other, others := doclock.ID("zzz"), p.locker(p.coll, relations.Fair())
			if _, err := p.coll.InsertOne(p.bounded(), other); err != nil {
				p.Fatal(err)
			}
			holder, err := others.TryAcquire(p.bounded(), other, "write")
			if err != nil {
				p.Fatal(err)
			}
			_, err = multilock.AcquireAll(p.bounded(), l.Want(flowers, "write", hold, doclock.LeaseTTL(time.Second)), l.Want(other, "write", doclock.MaxWait(time.Second)))
			p.want(err, doclock.ErrNotAcquired, doclock.ErrConflict)
			p.wantEntries()
			p.release(holder)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			l := p.locker(p.coll, relations.Fair())
			deed(p, l)
			p.eventually("it is removed", func() bool { return len(p.entries()) == 0 })
		})
	}
}

// The document that is deleted takes the time with it.
func TestRule25ADeletedDocumentKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	lease := p.try(l, "write", doclock.HoldAtLeast(time.Hour))
	if err := lease.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.insert()
	p.release(p.try(l, "write"))
}

// A lock that may leave a remainder is handed over to no waiter. The waiter asks
// for itself, and is granted when the time is over.
func TestRule25AWaiterWaitsForTheTime(t *testing.T) {
	t.Parallel()
	for name, update := range map[string]any{"release": nil, "classic": plusOne, "pipeline": plusOneInAPipeline} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			l := p.locker(p.coll, relations.Exclusive())
			const least = time.Second
			begun := time.Now()
			lease := p.try(l, "write", doclock.HoldAtLeast(least))
			waiter := acquire(t, p.bounded(), l, "write")
			p.queued(l, 1)
			if update == nil {
				p.release(lease)
			} else if err := lease.UpdateAndRelease(t.Context(), update); err != nil {
				t.Fatal(err)
			}
			next := p.granted(waiter)
			if waited := time.Since(begun); waited < least {
				t.Errorf("let in after %v", waited)
			}
			p.wantEntries(next)
			if raw := p.raw().Lookup("lock", "tags", "write", "0", "until"); raw.Type != 0 && raw.Type != bson.TypeNull {
				t.Errorf("the waiter's entry has a time: %v", raw)
			}
			p.release(next)
		})
	}
}
