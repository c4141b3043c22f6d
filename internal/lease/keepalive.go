package lease

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/doclock/doclock"
)

// This file has the contexts that end with leases.

// KeepAlive implements doclock.Lease.
func (l *Lease) KeepAlive(ctx context.Context) context.Context { return l.keep(ctx, false) }

// Keep is KeepAlive for a user of a shared lease: end ends the context before the lease.
func (l *Lease) Keep(ctx context.Context) (kept context.Context, end context.CancelCauseFunc) {
	k := l.keep(ctx, false)
	return k, k.end
}

// Work is KeepAlive for a function that runs under the lease. A release doesn't end its
// context: what the function does after its last write goes on. end ends it, with its
// cause. If that is nil, the function has returned, and a release follows, which may have
// to wait for a write: the lease is renewed until it is sent.
func (l *Lease) Work(ctx context.Context) (work context.Context, end context.CancelCauseFunc) {
	kept := l.keep(ctx, true)
	return kept, func(cause error) {
		if cause == nil {
			l.awaitRelease(ctx)
			cause = l.Released()
		}
		kept.end(cause)
	}
}

// awaitRelease renews the lease until its release is sent. Nobody waits for it as for a
// lease of his own context any more.
func (l *Lease) awaitRelease(ctx context.Context) {
	l.mu.Lock()
	l.returned = true
	l.mu.Unlock()
	l.KeepAlive(context.WithoutCancel(ctx))
}

func (l *Lease) keep(ctx context.Context, outlasts bool) *keptContext {
	inner, end := context.WithCancelCause(ctx)
	kept := &keptContext{Context: inner, lease: l, outer: l.outer(ctx), end: end}
	renewed := inner
	if outlasts {
		renewed, kept.stop = context.WithCancel(inner)
	}
	if err := l.follow(kept); err != nil {
		end(err)
		return kept
	}
	l.leases.keeper.keep(l)
	context.AfterFunc(renewed, func() {
		l.unfollow(kept)
		l.leases.keeper.dismiss(l)
	})
	return kept
}

// keptContext is a context that KeepAlive made. There may be ten thousand of
// them, and a child of a context that ends with the lease would cost twice as
// much.
type keptContext struct {
	context.Context
	lease *Lease
	outer context.Context // the one that KeepAlive was given
	end   context.CancelCauseFunc
	stop  context.CancelFunc // ends the renewals at a release that doesn't end the context; else nil
}

// Value implements context.Context.
func (c *keptContext) Value(key any) any {
	switch key {
	case outerKey{c.lease}:
		return c.outer
	case heldKey{}:
		return c
	}
	return c.Context.Value(key)
}

// ended implements follower.
func (c *keptContext) ended(cause error) {
	if c.stop != nil && errors.Is(cause, doclock.ErrReleased) {
		c.stop()
		return
	}
	c.end(cause)
}

// outerKey finds the context that KeepAlive was given in the one that it made.
type outerKey struct{ lease *Lease }

// outer is the context that KeepAlive was given, if it made ctx or a parent of it,
// and else ctx.
func (l *Lease) outer(ctx context.Context) context.Context {
	if outer, kept := ctx.Value(outerKey{l}).(context.Context); kept {
		return outer
	}
	return ctx
}

// KeepAlive keeps several leases alive, each until it is released or lost or ctx
// ends. The context that it returns ends with the first loss, when all are
// released, or with ctx. The other leases are kept alive after a loss: their
// holder may have something to undo under them.
func KeepAlive(ctx context.Context, leases []*Lease) context.Context {
	return keep(ctx, leases, false)
}

// Work is KeepAlive for a function that runs under the leases, as that of a [Lease].
func Work(ctx context.Context, leases []*Lease) (work context.Context, end context.CancelCauseFunc) {
	j := keep(ctx, leases, true)
	return j, func(cause error) {
		if cause == nil {
			for _, l := range leases {
				l.awaitRelease(ctx)
			}
			cause = doclock.ErrReleased
		}
		j.end(cause)
	}
}

func keep(ctx context.Context, leases []*Lease, outlasts bool) *joint {
	inner, end := context.WithCancelCause(ctx)
	j := &joint{Context: inner, leases: leases, outer: ctx, end: end, outlasts: outlasts}
	j.standing.Store(int32(len(leases)))
	for _, l := range leases {
		l.KeepAlive(ctx)
		if err := l.follow(j); err != nil {
			j.ended(err)
		}
	}
	context.AfterFunc(inner, func() {
		for _, l := range leases {
			l.unfollow(j)
		}
	})
	return j
}

// joint is the context of several leases. For each of them it is what a
// context of its own KeepAlive is: a command of a lease whose loss has ended
// the context still has its verdict.
type joint struct {
	context.Context
	leases   []*Lease
	standing atomic.Int32    // those that have not ended
	outer    context.Context // the one that KeepAlive was given
	end      context.CancelCauseFunc
	outlasts bool // a release of all doesn't end it
}

// Value implements context.Context.
func (j *joint) Value(key any) any {
	if key == (heldKey{}) {
		return j
	}
	for _, l := range j.leases {
		if key == (outerKey{l}) {
			return l.outer(j.outer)
		}
	}
	return j.Context.Value(key)
}

// ended implements follower.
func (j *joint) ended(cause error) {
	if last := j.standing.Add(-1) == 0 && !j.outlasts; last || errors.Is(cause, doclock.ErrLost) {
		j.end(cause)
	}
}

// heldKey finds the innermost context of a KeepAlive.
type heldKey struct{}

// holding is a context that KeepAlive made.
type holding interface {
	held() []*Lease
	given() context.Context // the one that it was made of
}

func (c *keptContext) held() []*Lease         { return []*Lease{c.lease} }
func (c *keptContext) given() context.Context { return c.Context }
func (j *joint) held() []*Lease               { return j.leases }
func (j *joint) given() context.Context       { return j.Context }

// HeldBy are the leases that the context holds, or has held: those whose KeepAlive has
// made it, or a parent of it.
func HeldBy(ctx context.Context) (all []*Lease) {
	for {
		of, made := ctx.Value(heldKey{}).(holding)
		if !made {
			return all
		}
		for _, l := range of.held() {
			if !slices.Contains(all, l) {
				all = append(all, l)
			}
		}
		ctx = of.given()
	}
}
