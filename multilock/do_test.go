package multilock_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// What Do returns for each failure is in docs/errors.md.

// dos are Do and DoAll, whose fn gets its first lease.
var dos = map[string]func(context.Context, *multilock.Locker, func(context.Context, doclock.Lease) error, ...doclock.AcquireOption) error{
	"Do": func(ctx context.Context, l *multilock.Locker, fn func(context.Context, doclock.Lease) error, opts ...doclock.AcquireOption) error {
		return l.Do(ctx, flowers, "write", fn, opts...)
	},
	"DoAll": func(ctx context.Context, l *multilock.Locker, fn func(context.Context, doclock.Lease) error, opts ...doclock.AcquireOption) error {
		return multilock.DoAll(ctx, func(ctx context.Context, leases multilock.Leases) error { return fn(ctx, leases[0]) },
			l.Want(flowers, "write", opts...), l.Want(doclock.ID(2), "write", opts...))
	},
}

func TestDoReleasesHoweverFnEnds(t *testing.T) {
	t.Parallel()
	for name, do := range dos {
		virtually(t, name, func(p *place) {
			l := p.plain(relations.Exclusive())
			run := func(fn func()) {
				_ = do(p.Context(), l, func(context.Context, doclock.Lease) error { fn(); return nil })
				p.Error("it returned")
			}
			if got := recovered(func() { run(func() { panic("fn's own") }) }); got != "fn's own" {
				p.Errorf("recovered %v", got)
			}
			p.wantHeld()
			done := make(chan struct{})
			go func() {
				defer close(done)
				run(runtime.Goexit)
			}()
			<-done
			p.wantHeld()
			ctx, cancel := context.WithCancel(p.Context())
			ok(p, do(ctx, l, func(context.Context, doclock.Lease) error { cancel(); return nil }))
			p.wantHeld()
		})
	}
}

// fn's context lives for as long as fn works, whatever the TTL is. MaxWait bounds neither the
// lease nor the work under it.
func TestDoRenews(t *testing.T) {
	t.Parallel()
	for name, do := range dos {
		virtually(t, name, func(p *place) {
			l := p.plain(relations.Exclusive(), doclock.TTL(time.Minute))
			for _, opts := range [][]doclock.AcquireOption{nil, {doclock.TTL(doclock.MinTTL)}, {doclock.MaxWait(time.Minute)}} {
				ok(p, do(p.Context(), l, func(ctx context.Context, lease doclock.Lease) error {
					time.Sleep(5 * time.Minute)
					if _, limited := ctx.Deadline(); limited {
						p.Error("fn's context is bounded")
					}
					return errors.Join(ctx.Err(), lease.Err())
				}, opts...))
			}
		})
	}
}

// A fn that goes on after the end of the call's context keeps the lock for a TTL, and no longer.
func TestDoRenewsNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	for name, do := range dos {
		virtually(t, name, func(p *place) {
			l, rival := p.plain(relations.Exclusive()), p.plain(relations.Exclusive())
			p.want(do(p.within(time.Second), l, func(context.Context, doclock.Lease) error {
				time.Sleep(time.Minute)
				p.try(rival, "write")
				return nil
			}), doclock.ErrLost)
		})
	}
}

// What fn does after the last write of a lock goes on, also under an outer lock; its context ends with fn.
func TestDoOutlivesItsLastWrite(t *testing.T) {
	virtual(t, func(p *place) {
		p.several(2)
		coll, w := p.watched()
		l := p.locker(coll, relations.Exclusive())
		var inside, outside context.Context
		ok(p, l.Do(p.Context(), doclock.ID(1), "write", func(ctx context.Context, outer doclock.Lease) error {
			outside = ctx
			ok(p, l.Do(ctx, doclock.ID(2), "write", func(ctx context.Context, inner doclock.Lease) error {
				inside = ctx
				ok(p, inner.UpdateAndRelease(ctx, plusOne))
				w.Take()
				time.Sleep(time.Hour)
				if sent := w.Take(); len(sent) < 100 {
					p.Errorf("the outer lease was renewed %d times", len(sent))
				}
				return outer.UpdateAndRelease(ctx, plusOne)
			}))
			p.want(context.Cause(inside), doclock.ErrReleased)
			return p.coll.FindOne(ctx, flowers).Err()
		}))
		p.want(context.Cause(outside), doclock.ErrReleased)
		if p.at(1).Total != 11 || p.at(2).Total != 11 {
			p.Errorf("the totals are %d and %d", p.at(1).Total, p.at(2).Total)
		}
		w.Take()
		time.Sleep(time.Hour)
		if sent := w.Take(); len(sent) > 0 {
			p.Errorf("after all, %d commands", len(sent))
		}
	})
}

// fn releases the lock itself, or gives it to the user of a token or to a lease of
// another tag. Do sends no second release, and returns the verdict of fn's.
func TestDoWhoseFnReleases(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair())
	var after func()
	for name, c := range map[string]struct {
		fn func(context.Context, doclock.Lease) error
		is []error
	}{
		"Release": {func(ctx context.Context, lease doclock.Lease) error {
			err := lease.Release(ctx)
			ok(p, context.Cause(ctx))
			return err
		}, nil},
		"Detach": {func(ctx context.Context, lease doclock.Lease) error {
			token, err := lease.Detach(ctx)
			ok(p, context.Cause(ctx))
			after = func() { p.release(p.resume(l, token)) }
			return err
		}, nil},
		"Convert": {func(ctx context.Context, lease doclock.Lease) error {
			next := p.convert(lease, "read")
			ok(p, context.Cause(ctx))
			ok(t, next.KeepAlive(p.bounded()).Err()) // with a context from outside
			after = func() {
				p.wantEntries(next)
				p.release(next)
			}
			return nil
		}, nil},
		"UpdateAndRelease": {func(ctx context.Context, lease doclock.Lease) error { return lease.UpdateAndRelease(ctx, plusOne) }, nil},
		"a lost lock": {func(ctx context.Context, lease doclock.Lease) error {
			p.erase("write")
			_ = lease.Release(ctx)
			return nil
		}, []error{doclock.ErrLost}},
	} {
		after = func() {}
		p.sends(w, 2, name, func() error { return l.Do(t.Context(), flowers, "write", c.fn) }, c.is...)
		after()
	}
	if total := p.total(); total != 2 {
		t.Errorf("total is %d", total)
	}
	p.wantEntries()
}

// A write whose caller has left delays the release. Until that is sent the lease is renewed,
// also after the end of the call's context: nobody is let in, and Do says so.
func TestDoRenewsUntilTheReleaseIsSent(t *testing.T) {
	virtual(t, func(p *place) {
		for name, within := range map[string]time.Duration{"fn's own context has ended": time.Hour, "the call's has": time.Second} {
			l, rival := p.plain(relations.Exclusive(), doclock.TTL(4*time.Second), doclock.AttemptTimeout(time.Minute)), p.plain(relations.Exclusive())
			for call, run := range dos {
				p.mem.Delay(1, 20*time.Second, locktest.Writes)
				begun := time.Now()
				var next *pending[doclock.Lease]
				err := run(p.within(within), l, func(ctx context.Context, lease doclock.Lease) error {
					next = acquire(p, p.Context(), rival, "write")
					short, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					p.want(lease.Update(short, plusOne), doclock.ErrOutcomeUnknown)
					return nil
				})
				if took := time.Since(begun); err != nil || took < 10*time.Second {
					p.Errorf("%s, %s: %v after %v", name, call, err, took)
				}
				p.release(p.granted(next))
			}
		}
	})
}

// Do learns of its release by as many attempts as that takes, though its context ends before, or meanwhile.
func TestDoAwaitsItsRelease(t *testing.T) {
	t.Parallel()
	for name, do := range dos {
		for ends, after := range map[string]time.Duration{"in fn": time.Second / 2, "in the release": 2 * time.Second} {
			virtually(t, name+", "+ends, func(p *place) {
				l := p.plain(relations.Exclusive())
				ctx, cancel := context.WithCancel(p.Context())
				ok(p, do(ctx, l, func(context.Context, doclock.Lease) error {
					p.mem.Delay(1, time.Minute, locktest.Releases)
					time.AfterFunc(after, cancel)
					time.Sleep(time.Second)
					return nil
				}))
				p.wantHeld()
			})
		}
	}
}

// What the callers get for each failure is in docs/errors.md, which proptest/verdicts
// makes. These are the cases that it doesn't have.

// wantVerdict fails unless err is of just these verdicts on a lock.
func (p *place) wantVerdict(what string, err error, want ...error) {
	p.Helper()
	var all []error
	for _, v := range []error{doclock.ErrNotAcquired, doclock.ErrLost, doclock.ErrOutcomeUnknown} {
		if errors.Is(err, v) {
			all = append(all, v)
		}
	}
	if !slices.Equal(all, want) {
		p.Errorf("%s: %v is %v, want %v", what, err, all, want)
	}
}

// The lock is removed while fn runs. Do has one verdict on the lock, whatever the
// outcome of fn's own write is.
func TestDoReturnsOneVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fn   func(context.Context, *place, doclock.Lease) error
		want error
	}{
		"a write that was not applied": {func(ctx context.Context, _ *place, l doclock.Lease) error { return l.Update(ctx, plusOne) }, doclock.ErrLost},
		"a write of unknown outcome": {func(ctx context.Context, p *place, l doclock.Lease) error {
			p.mem.LoseRequests(1, locktest.Writes)
			return l.Update(ctx, plusOne)
		}, doclock.ErrLost},
		"a last write of unknown outcome": {func(ctx context.Context, p *place, l doclock.Lease) error {
			p.mem.LoseRequests(1, locktest.Writes)
			return l.UpdateAndRelease(ctx, plusOne)
		}, doclock.ErrOutcomeUnknown},
		"a loss that is known, and a release that goes astray": {func(ctx context.Context, p *place, l doclock.Lease) error {
			p.want(l.Renew(ctx), doclock.ErrLost)
			p.mem.LoseRequests(1, locktest.Releases)
			return nil
		}, doclock.ErrLost},
	} {
		virtually(t, name, func(p *place) {
			err := p.plain(relations.Exclusive()).Do(p.Context(), flowers, "write", func(ctx context.Context, lease doclock.Lease) error {
				p.Change(bson.M{"$unset": bson.M{"lock": 1}})
				return c.fn(ctx, p, lease)
			})
			p.wantVerdict("Do", err, c.want)
			if text := strings.TrimPrefix(c.want.Error(), "doclock: "); strings.Count(err.Error(), text) != 1 {
				p.Errorf("it doesn't say %q once: %v", text, err)
			}
		})
	}
}

// One of several holders of a shared entry writes and releases, after the lease's time
// is up. The update is not executed, and the error says all the same what became of the
// lock.
func TestTheLastUpdateOfASharerHasAVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arm  func(*place, *mongo.Client)
		want error
	}{
		"no server can be reached": {func(p *place, c *mongo.Client) { p.mem.Cut(c) }, doclock.ErrOutcomeUnknown},
		"the server refuses it": {func(p *place, _ *mongo.Client) {
			p.mem.Fail(1, mongo.CommandError{Code: 13, Message: "not authorized"}, locktest.Writes)
		}, doclock.ErrLost},
	} {
		virtually(t, name, func(p *place) {
			coll, _ := p.watched()
			readers, others := p.sharing(coll, doclock.TTL(time.Minute)), p.plain(relations.WritePreferring())
			one, two := p.try(readers, "read"), p.try(readers, "read")
			theirs := p.got(others.Acquire(p.Context(), flowers, "write")) // once the entry has expired
			c.arm(p, coll.Database().Client())
			err := one.UpdateAndRelease(p.Context(), plusOne)
			p.wantVerdict("UpdateAndRelease", err, c.want)
			if !errors.As(err, new(mongo.CommandError)) && !mongo.IsTimeout(err) {
				p.Errorf("the driver's error is not in %v", err)
			}
			p.mem.Reconnect(coll.Database().Client())
			p.want(one.Release(p.Context()), doclock.ErrLost)
			p.want(two.Release(p.Context()), doclock.ErrLost)
			p.release(theirs)
		})
	}
}
