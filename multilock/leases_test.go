package multilock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
)

// The joint context ends with the first loss. The others are kept, and every release happens,
// though the context that bounded the wait and the work has ended.
func TestOneLossEndsTheJointContext(t *testing.T) {
	virtual(t, func(p *place) {
		p.several(3)
		l := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second))
		cause := errors.New("the user has left")
		outer, cancel := context.WithCancelCause(p.Context())
		err := multilock.DoAll(outer, func(ctx context.Context, leases multilock.Leases) error {
			p.eraseOf(2)
			wait(p, ctx.Done())
			p.want(context.Cause(ctx), doclock.ErrLost)
			p.want(leases[1].Err(), doclock.ErrLost)
			time.Sleep(10 * time.Second)
			if leases[0].Err() != nil || leases[2].Err() != nil {
				p.Errorf("the others are %v and %v", leases[0], leases[2])
			}
			p.wantHeld(1, 3)
			cancel(cause)
			return context.Cause(outer)
		}, of(l, 1, 2, 3)...)
		p.wantVerdict("DoAll", err, doclock.ErrLost)
		p.want(err, cause)
		p.wantHeld()
	})
}

// A lease that fn releases doesn't end the joint context, not even the last one.
func TestTheJointContextOutlivesARelease(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 2)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	p.sends(w, 2+2, "DoAll", func() error {
		return multilock.DoAll(t.Context(), func(ctx context.Context, leases multilock.Leases) error {
			for i, lease := range leases {
				if ctx.Err() != nil {
					t.Errorf("after %d releases the context is over: %v", i, context.Cause(ctx))
				}
				if err := lease.UpdateAndRelease(ctx, plusOne); err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		}, of(l, 1, 2)...)
	})
	if p.at(1).Total != 11 || p.at(2).Total != 11 {
		t.Errorf("the totals are %d and %d", p.at(1).Total, p.at(2).Total)
	}
	p.wantHeld()
}

func TestTheJointContextEndsWithItsParent(t *testing.T) {
	virtual(t, func(p *place) {
		p.several(2)
		l := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second), doclock.ClockTolerance(0))
		leases, err := multilock.AcquireAll(p.Context(), of(l, 1, 2)...)
		must(p, err)
		cause := errors.New("the user has left")
		outer, cancel := context.WithCancelCause(p.Context())
		ctx := leases.KeepAlive(outer)
		again := leases.KeepAlive(ctx)
		cancel(cause)
		for _, ctx := range []context.Context{ctx, again} {
			wait(p, ctx.Done())
			p.want(context.Cause(ctx), cause)
		}
		for _, lease := range leases {
			wait(p, lease.Done()) // which nobody renews any more
		}
		p.want(context.Cause(leases.KeepAlive(p.Context())), doclock.ErrLost)
		ok(p, leases.Release(p.Context())) // nobody was let in
		p.wantHeld()
	})
}

// Each error of a release names its document.
func TestReleaseOfSeveralNamesTheLost(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 3)
	l := p.locker(p.coll, relations.Exclusive())
	leases, err := multilock.AcquireAll(p.bounded(), of(l, 3, 2, 1, 2)...)
	must(t, err)
	p.eraseOf(3)
	p.eraseOf(2)
	err = leases.Release(p.bounded())
	fault{doclock.ErrLost, []string{`"write" on document 3`, `"write" on document 2`}}.check(t, "Release", err)
	p.want(leases.Release(p.bounded()), doclock.ErrLost)
	p.wantHeld()
	ok(t, multilock.Leases{}.Release(p.bounded()))
}

// A nil lease is lost, and the others are renewed and released. Without any lease the
// context ends with its parent.
func TestLeasesWithoutALease(t *testing.T) {
	virtual(t, func(p *place) {
		lease := p.try(p.plain(relations.Exclusive(), doclock.TTL(doclock.MinTTL)), "write")
		leases := multilock.Leases{nil, lease, nil}
		p.want(context.Cause(leases.KeepAlive(p.Context())), doclock.ErrLost)
		parent, end := context.WithCancel(p.Context())
		none := multilock.Leases{}.KeepAlive(parent)
		time.Sleep(time.Minute)
		ok(p, lease.Err())
		ok(p, none.Err())
		end()
		wait(p, none.Done())
		p.want(leases.Release(p.Context()), doclock.ErrLost)
		p.wantEntries()
	})
}

// fake is a lease of a caller's own.
type fake struct {
	doclock.Lease
	released int
}

func (f *fake) Release(context.Context) error {
	f.released++
	return doclock.ErrOutcomeUnknown
}

// A fake among the leases has its own Release and KeepAlive called.
func TestLeasesWithAFake(t *testing.T) {
	virtual(t, func(p *place) {
		p.several(2)
		l := p.locker(p.coll, relations.Exclusive())
		leases, err := multilock.AcquireAll(p.Context(), of(l, 1, 2)...)
		must(p, err)
		f := &fake{Lease: leases[1]}
		both := multilock.Leases{leases[0], f}
		ctx := both.KeepAlive(p.Context())
		time.Sleep(10 * calm)
		ok(p, ctx.Err())
		p.want(both.Release(p.Context()), doclock.ErrOutcomeUnknown)
		if f.released != 1 {
			p.Errorf("it was released %d times", f.released)
		}
		p.wantHeld(2)
		ok(p, leases[1].Release(p.Context()))
		wait(p, ctx.Done())
		p.want(context.Cause(ctx), doclock.ErrReleased)
	})
}

// A call that fails returns a nil lease: an interface with nothing in it.
func TestAFailedCallReturnsANilLease(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	simple, err := writelock.New(p.coll)
	must(t, err)
	p.Cleanup(func() { ok(p, simple.Close(p.bounded())) })
	holder, ctx := p.try(l, "write"), p.within(time.Minute)
	ticket := p.enqueue(l, "write")
	ended, end := context.WithCancel(ctx)
	end()
	for name, call := range map[string]func() (doclock.Lease, error){
		"TryAcquire":                      func() (doclock.Lease, error) { return l.TryAcquire(ctx, flowers, "write") },
		"TryAcquire of an unknown tag":    func() (doclock.Lease, error) { return l.TryAcquire(ctx, flowers, "!") },
		"Acquire":                         func() (doclock.Lease, error) { return l.Acquire(ctx, flowers, "read", doclock.MaxWait(0)) },
		"Acquire of an unknown tag":       func() (doclock.Lease, error) { return l.Acquire(ctx, flowers, "!") },
		"a claim":                         func() (doclock.Lease, error) { return l.TryAcquire(ctx, flowers, "write", doclock.SkipLocked()) },
		"Confirm":                         func() (doclock.Lease, error) { return ticket.Confirm(ctx) },
		"Wait":                            func() (doclock.Lease, error) { return ticket.Wait(ended) },
		"Resume":                          func() (doclock.Lease, error) { return l.Resume(ctx, flowers, "!") },
		"Downgrade":                       func() (doclock.Lease, error) { return holder.Downgrade(ctx, "write") },
		"Downgrade to an unknown tag":     func() (doclock.Lease, error) { return holder.Downgrade(ctx, "!") },
		"TryAcquire of package writelock": func() (doclock.Lease, error) { return simple.TryAcquire(ctx, flowers) },
		"Acquire of package writelock":    func() (doclock.Lease, error) { return simple.Acquire(ctx, flowers, doclock.MaxWait(0)) },
		"Resume of package writelock":     func() (doclock.Lease, error) { return simple.Resume(ctx, flowers, "!") },
	} {
		if lease, err := call(); lease != nil || err == nil {
			t.Errorf("%s returned a %T, %v", name, lease, err)
		}
	}
	if leases, err := multilock.AcquireAll(ended, l.Want(flowers, "write")); leases != nil || err == nil {
		t.Errorf("AcquireAll returned %v, %v", leases, err)
	}
	ok(p, ticket.Cancel(ctx))
	p.release(holder)
}
