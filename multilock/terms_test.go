package multilock_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The ways to acquire.
var ways = map[string]func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease{
	"TryAcquire": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease {
		return p.try(l, "write", opts...)
	},
	"Acquire": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease {
		return p.acquire(l, "write", opts...)
	},
	"Enqueue": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease {
		return p.got(p.enqueue(l, "write", opts...).Confirm(p.bounded()))
	},
	"Enqueue, and wait": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease {
		before := p.try(l, "write")
		ticket := p.enqueue(l, "write", opts...)
		p.release(before)
		return p.got(ticket.Wait(p.bounded()))
	},
	"Acquire, and wait": func(p *place, l *multilock.Locker, opts ...doclock.AcquireOption) doclock.Lease {
		before := p.try(l, "write")
		waiter := acquire(p, p.bounded(), l, "write", opts...)
		p.queued(l, 1)
		p.release(before) // which hands it over
		return p.granted(waiter)
	},
}

// The TTL and the Owner of an acquire count, however it acquires, before the TagTTL,
// and that before the Locker's TTL. Of two the last counts. The lease is valid, and kept
// by the server, for that time, also after a renewal.
func TestTheTTLAndTheOwnerOfAnAcquire(t *testing.T) {
	t.Parallel()
	const own, tolerance = time.Hour, 2 * time.Second
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, at, here := newPlace(t), &clock{}, &clock{}
			l := p.locker(p.coll, relations.Fair(), doclock.TagTTL("write", 2*calm+600*time.Microsecond), doclock.ClockTolerance(0), doclock.ClockTolerance(tolerance+600*time.Microsecond), doclock.Owner("the program"), at.drive(), here.turn())
			lease := way(p, l, doclock.TTL(calm), doclock.TTL(own+time.Microsecond), doclock.Owner("a job"))
			for range 2 {
				if left := lease.Remaining(); left != own-time.Millisecond {
					t.Errorf("%v left", left)
				}
				entries := p.entries("write")
				if len(entries) != 1 || entries[0].Owner != "a job" || entries[0].Expires.Sub(at.Now()) != own+tolerance {
					t.Errorf("at %v there is %+v", at.Now(), entries)
				}
				at.Pass(time.Minute)
				here.Pass(time.Minute)
				must(t, lease.Renew(t.Context()))
			}
			p.release(lease)
			after := p.try(l, "write")
			if entries := p.entries("write"); len(entries) != 1 || entries[0].Owner != "the program" || entries[0].Expires.Sub(at.Now()) != 2*calm+tolerance {
				t.Errorf("after it there is %+v", entries)
			}
			if left := after.Remaining(); left != 2*calm-time.Millisecond {
				t.Errorf("after it, %v left", left)
			}
			p.release(after)
		})
	}
}

// wantLimit fails unless err is the end of a HoldAtMost.
func (p *place) wantLimit(what string, err error) {
	p.Helper()
	if lost := (*doclock.LostError)(nil); !errors.As(err, &lost) || lost.Reason != doclock.LossHeldAtMost {
		p.Errorf("%s: %v, want the end of a HoldAtMost", what, err)
	}
}

// A holder that is stuck lets others in soon after its limit, and learns it. While
// nobody was let in, the server's word counts.
func TestHoldAtMostLetsOthersIn(t *testing.T) {
	t.Parallel()
	for _, most := range []time.Duration{3 * time.Second, 10 * time.Second, time.Minute} {
		for name, beside := range map[string]bool{"others wait": true, "nobody waits": false} {
			limit := doclock.HoldAtMost(most)
			of, opts := []doclock.Option{doclock.HoldAtMost(time.Second)}, []doclock.AcquireOption{limit}
			if most == time.Minute { // the Locker's own
				of, opts = []doclock.Option{limit}, nil
			}
			virtually(t, name, func(p *place) {
				mine, others := p.plain(relations.Exclusive(), of...), p.plain(relations.Exclusive())
				begun := time.Now()
				err := mine.Do(p.Context(), flowers, "write", func(ctx context.Context, lease doclock.Lease) error {
					<-ctx.Done()
					if passed := time.Since(begun).Round(10 * time.Millisecond); passed != most {
						p.Errorf("its context ended after %v, want %v", passed, most)
					}
					p.wantLimit("the context", context.Cause(ctx))
					p.wantLimit("Err", lease.Err())
					if beside {
						p.acquire(others, "write")
						if after := time.Since(begun); after > most+5*time.Second {
							p.Errorf("others were let in after %v of %v", after, most)
						}
					}
					time.Sleep(time.Minute) // it is stuck
					return nil
				}, opts...)
				if beside {
					p.want(err, doclock.ErrLost)
				} else {
					ok(p, err)
				}
			})
		}
	}
}

// Of several leases the first limit ends the context, also while the others are
// acquired.
func TestHoldAtMostOfOneOfSeveral(t *testing.T) {
	virtual(t, func(p *place) {
		l, others := p.plain(relations.Exclusive()), p.plain(relations.Exclusive())
		err := multilock.DoAll(p.Context(), func(ctx context.Context, leases multilock.Leases) error {
			<-ctx.Done()
			p.wantLimit("the context", context.Cause(ctx))
			p.wantLimit("the limited one", leases[0].Err())
			ok(p, leases[1].Err())
			return nil
		}, l.Want(doclock.ID(1), "write", doclock.HoldAtMost(30*time.Second)), l.Want(doclock.ID(2), "write"))
		if err != nil {
			p.Errorf("nobody was let in, and DoAll returned %v", err)
		}

		held := p.got(others.TryAcquire(p.Context(), doclock.ID(2), "write"))
		kept, stop := context.WithCancel(p.Context())
		defer stop()
		held.KeepAlive(kept)
		_, err = multilock.AcquireAll(p.Context(), l.Want(doclock.ID(1), "write", doclock.HoldAtMost(30*time.Second)), l.Want(doclock.ID(2), "write"))
		if !errors.Is(err, doclock.ErrNotAcquired) || !strings.Contains(err.Error(), "its HoldAtMost was up at") {
			p.Errorf("AcquireAll: %v", err)
		}
		ok(p, held.Release(p.Context()))
	})
}

// What can't be meant is refused. TestAcquireRefusesBadInput has the values.
func TestHoldAtMostIsChecked(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.WritePreferring())
		minute := doclock.HoldAtMost(time.Minute)
		invalid("HoldAtMost").check(p, "less than HoldAtLeast",
			errOf(l.TryAcquire(p.Context(), flowers, "write", doclock.HoldAtLeast(2*time.Minute), minute)))
		_, err := multilock.New(p.coll, relations.WritePreferring(), minute, doclock.ShareInProcess("read"))
		invalid("HoldAtMost", `"read"`).check(p, "a Locker that shares", err)
		limited := p.plain(relations.Exclusive(), minute)
		invalid("HoldAtMost", "HoldAtLeast").check(p, "less than HoldAtLeast", errOf(limited.TryAcquire(p.Context(), flowers, "write", doclock.HoldAtLeast(2*time.Minute))))
		held := p.try(l, "write", doclock.HoldAtLeast(time.Minute), minute)
		p.want(errOf(held.Detach(p.Context())), doclock.ErrInvalidArgument)
		p.release(held)
		time.Sleep(2 * time.Minute)
		token := p.detach(p.try(l, "write"))
		p.want(errOf(l.Resume(p.Context(), flowers, token, minute)), doclock.ErrInvalidArgument)
		resumed := p.resume(limited, token)
		resumed.KeepAlive(p.Context())
		time.Sleep(2 * time.Minute)
		ok(p, resumed.Err())
	})
}

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
				if n := p.total(); n != 1+release.adds {
					t.Errorf("the document's total is %d, want %d", n, 1+release.adds)
				}

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
			for _, acquire := range []func(context.Context, any, string, ...doclock.AcquireOption) (doclock.Lease, error){l.TryAcquire, l.Acquire} {
				p.want(errOf(acquire(p.bounded(), flowers, "write", hold, doclock.Into(&into))), doclock.ErrNotAcquired)
				p.eventually("it is released", func() bool { return len(p.entries()) == 0 })
			}
		},
		"a batch that can't be decoded": func(p *place, l locker) {
			var into []struct{ Name int }
			p.want(errOf(l.AcquireBatch(p.bounded(), flowers, "write", 1, hold, doclock.Into(&into))), doclock.ErrNotAcquired)
		},
		"a ticket that is cancelled": func(p *place, l locker) {
			first := p.try(l, "write")
			ticket := p.enqueue(l, "write", hold)
			p.release(first)
			ok(p, ticket.Cancel(p.bounded()))
		},
		"a waiter that gave up as it was handed the lock": func(p *place, _ locker) { p.leaves(relations.Fair(), hold) },
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

// Tests of numbers and times at the ends of their range.

// serverAt sets the server's clock to a time.
func (p *place) serverAt(t time.Time) { p.mem.Advance(time.Until(t)) }

// A fence is the server's time in milliseconds. At a time that makes none, nothing is
// written, and the error names the clock.
func TestServersClockAtTheEnds(t *testing.T) {
	t.Parallel()
	for at, granted := range map[string]bool{
		"1800-01-01T00:00:00Z": false, "1969-12-31T23:59:50Z": false, "1970-01-01T00:00:00Z": false,
		"1970-01-01T00:00:00.001Z": true, "2038-01-19T03:14:08Z": true, "2290-01-01T00:00:00Z": true,
	} {
		virtually(t, at, func(p *place) {
			when, err := time.Parse(time.RFC3339, at)
			must(p, err)
			p.serverAt(when)
			a, b := p.plain(relations.Fair()), p.plain(relations.Fair())
			if granted {
				lease := p.try(a, "write")
				p.want(errOf(b.TryAcquire(p.Context(), flowers, "write")), doclock.ErrConflict)
				must(p, lease.Renew(p.Context()))
				p.release(lease)
				p.release(p.try(b, "write"))
				return
			}
			for name, ask := range asks {
				err := errOf(ask(a, p.Context(), flowers, "write"))
				fault{doclock.ErrUnsupportedServer, []string{"clock", at[:10]}}.check(p, name, err)
				p.want(err, doclock.ErrNotAcquired)
			}
			if n, err := p.coll.CountDocuments(p.Context(), bson.M{"lock": bson.M{"$exists": true}}); n != 0 || err != nil {
				p.Errorf("%d locks were written, %v", n, err)
			}
		})
	}
}

// The last fence is given out, and then nothing that needs another one is written. What
// needs none goes on.
func TestFencesThatHaveRunOut(t *testing.T) {
	virtual(t, func(p *place) {
		must(p, errOf(p.coll.UpdateOne(p.Context(), flowers, bson.M{"$set": bson.M{"lock": bson.M{"fence": int64(1<<53 - 2)}}})))
		l := p.plain(relations.WritePreferring())
		lease := p.try(l, "write")
		if lease.Fence() != 1<<53-1 {
			p.Errorf("the last fence is %d", lease.Fence())
		}
		must(p, lease.Renew(p.Context()))
		must(p, lease.Update(p.Context(), bson.M{"$inc": bson.M{"total": 1}}))
		foreign := fault{doclock.ErrForeignLock, []string{"9007199254740991", "last"}}
		refused := func(name string, err error) {
			p.Helper()
			foreign.check(p, name, err)
			p.wantEntries(lease)
		}
		refused("TryAcquire", errOf(l.TryAcquire(p.Context(), flowers, "read")))
		refused("Acquire", errOf(l.Acquire(p.Context(), flowers, "write")))
		if _, err := lease.Convert(p.Context(), "read"); err == nil {
			p.Error("converted")
		}
		p.wantEntries(lease)
		must(p, lease.Err())
		token := p.detach(lease)
		foreign.check(p, "Resume", errOf(l.Resume(p.Context(), flowers, token)))
		must(p, l.Touch(p.Context(), flowers, token))
		if e := p.entries("write"); len(e) != 1 || !e[0].Detached {
			p.Errorf("the entry is %+v", e)
		}
	})
}

// An expiry that somebody has damaged says nothing good of a lease: after a batch of
// unknown outcome a read decides, and others have been let in.
func TestADamagedExpiryRenewsNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]bson.M{
		"absent":      {"$unset": bson.M{"lock.tags.write.0.expires": 1}},
		"null":        {"$set": bson.M{"lock.tags.write.0.expires": nil}},
		"a text":      {"$set": bson.M{"lock.tags.write.0.expires": "2026-01-01"}},
		"year 1":      {"$set": bson.M{"lock.tags.write.0.expires": time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"the lowest":  {"$set": bson.M{"lock.tags.write.0.expires": bson.DateTime(math.MinInt64)}},
		"the highest": {"$set": bson.M{"lock.tags.write.0.expires": bson.DateTime(math.MaxInt64)}},
	} {
		virtually(t, name, func(p *place) {
			a, b := p.locker(p.coll, relations.Exclusive(), doclock.TTL(10*time.Second)), p.locker(p.coll, relations.Exclusive())
			first := p.try(a, "write")
			second, err := a.TryAcquire(p.Context(), doclock.ID(2), "write")
			must(p, err)
			first.KeepAlive(p.Context())
			second.KeepAlive(p.Context())
			must(p, errOf(p.coll.UpdateOne(p.Context(), flowers, change)))
			p.mem.LoseRequests(1000, locktest.Renewals)
			time.Sleep(4 * time.Second) // the request of one renewal is lost
			theirs, err := b.TryAcquire(p.Context(), flowers, "write")
			if (err == nil) == (name == "the highest") {
				p.Errorf("others: %v", err)
			}
			time.Sleep(7 * time.Second)
			p.mem.LoseRequests(0)
			if left := first.Remaining(); err == nil && left > 0 || left > 10*time.Second {
				p.Errorf("others have the lock: %v, and the lease has %v left", err == nil, left)
			}
			if theirs != nil {
				p.release(theirs)
			}
			_ = first.Release(p.Context())
			p.release(second)
		})
	}
}
