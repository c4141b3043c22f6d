package lease

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/doclock/doclock"
)

// This file has the contexts that end with leases.

func (l *Lease) KeepAlive(ctx context.Context) context.Context { return l.keep(ctx, false) }

// Keep is KeepAlive for a user of a shared lease, who has it until life ends: end ends the
// context before the lease.
func (l *Lease) Keep(ctx, life context.Context) (kept context.Context, end context.CancelCauseFunc) {
	k := l.keep(ctx, false)
	k.life = life
	return k, k.end
}

// Work is KeepAlive for a function that runs under the lease. A release doesn't end its
// context: what the function does after its last write goes on. end ends it, with its
// cause. If that is nil, the function has returned, and a release follows, which may have
// to wait for a write: the lease is renewed until it is sent.
func (l *Lease) Work(ctx context.Context) (work context.Context, end context.CancelCauseFunc) {
	return l.WorkOf(ctx, context.Background())
}

// WorkOf is Work for a user of a shared lease, who has it until life ends.
func (l *Lease) WorkOf(ctx, life context.Context) (work context.Context, end context.CancelCauseFunc) {
	kept := l.keep(ctx, true)
	kept.life = life
	context.AfterFunc(life, kept.release)
	return kept, kept.endWork(l.Released())
}

func (l *Lease) keep(ctx context.Context, outlasts bool) *keptContext {
	kept := newKeptContext(ctx, l)
	renewed := kept.Context
	if outlasts {
		renewed, kept.release = context.WithCancel(renewed)
	}
	if err := l.follow(kept); err != nil {
		kept.end(err)
		return kept
	}
	l.leases.keeper.keep(l)
	context.AfterFunc(renewed, func() {
		l.unfollow(kept)
		l.leases.keeper.dismiss(l)
	})
	return kept
}

// KeepAlive keeps several leases alive, each until it is released or lost or ctx
// ends. The context that it returns ends with the first loss, when all are
// released, or with ctx. The other leases are kept alive after a loss: their
// holder may have something to undo under them.
func KeepAlive(ctx context.Context, leases []*Lease) context.Context {
	return keep(ctx, leases, nil)
}

// Work is KeepAlive for a function that runs under the leases, as that of a [Lease].
func Work(ctx context.Context, leases []*Lease) (work context.Context, end context.CancelCauseFunc) {
	kept := keep(ctx, leases, func() {})
	return kept, kept.endWork(doclock.ErrReleased)
}

func keep(ctx context.Context, leases []*Lease, release func()) *keptContext {
	kept := newKeptContext(ctx, leases...)
	kept.release = release
	for _, l := range leases {
		l.KeepAlive(ctx)
		if err := l.follow(kept); err != nil {
			kept.ended(err)
		}
	}
	context.AfterFunc(kept.Context, func() {
		for _, l := range leases {
			l.unfollow(kept)
		}
	})
	return kept
}

// keptContext is a context that KeepAlive made, of one lease or several. There may be ten
// thousand of them, and a child of a context that ends with the lease would cost twice as
// much. For each of several leases it is what a context of its own KeepAlive is: a command
// of a lease whose loss has ended the context still has its verdict.
type keptContext struct {
	context.Context
	leases   []*Lease
	standing atomic.Int32    // those that have not ended
	outer    context.Context // the one that KeepAlive was given
	end      context.CancelCauseFunc
	life     context.Context // of the user of a shared lease; else it has no end
	release  func()          // follows the release of all, which doesn't end the context then; or nil
}

func newKeptContext(ctx context.Context, leases ...*Lease) *keptContext {
	inner, end := withCancel(ctx)
	kept := &keptContext{Context: inner, leases: leases, outer: ctx, end: end, life: context.Background()}
	kept.standing.Store(int32(len(leases)))
	return kept
}

// withCancel is context.WithCancelCause, for a function that the end of a lease calls under
// its mutex: it asks ctx no more for its Done, which may be the lease's.
func withCancel(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(doneContext{ctx, ctx.Done()})
}

// doneContext is a context whose Done is known.
type doneContext struct {
	context.Context
	done <-chan struct{}
}

func (c doneContext) Done() <-chan struct{} { return c.done }

func (c *keptContext) Value(key any) any {
	if key == (heldKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func (c *keptContext) ended(cause error) {
	switch last := c.standing.Add(-1) == 0; {
	case errors.Is(cause, doclock.ErrLost), last && c.release == nil:
		c.end(cause)
	case last:
		c.release()
	}
}

// endWork ends the context of a function, which has returned if there is no other cause.
// The leases are renewed until their release is sent, and nobody waits for them as for
// leases of his own context any more.
func (c *keptContext) endWork(returned error) context.CancelCauseFunc {
	return func(cause error) {
		if cause != nil {
			c.end(cause)
			return
		}
		for _, l := range c.leases {
			l.mu.Lock()
			l.returned = true
			l.mu.Unlock()
			l.KeepAlive(context.WithoutCancel(c.outer))
		}
		c.end(returned)
	}
}

// heldKey finds the innermost context of a KeepAlive.
type heldKey struct{}

// innermost is the innermost context of a KeepAlive that ctx is, or comes from, or nil.
func innermost(ctx context.Context) *keptContext {
	kept, _ := ctx.Value(heldKey{}).(*keptContext)
	return kept
}

// outer is the context that the lease's KeepAlive was given, the first one if there are
// several, if it made ctx or a parent of it, and else ctx.
func (l *Lease) outer(ctx context.Context) context.Context {
	for kept := innermost(ctx); kept != nil; kept = innermost(kept.outer) {
		if slices.Contains(kept.leases, l) {
			ctx = kept.outer
		}
	}
	return ctx
}

// HeldBy are the leases that the context holds, or has held: those whose KeepAlive has
// made it, or a parent of it. A shared lease is not there once its user has left.
func HeldBy(ctx context.Context) (all []*Lease) {
	for kept := innermost(ctx); kept != nil; kept = innermost(kept.outer) {
		for _, l := range kept.leases {
			if kept.life.Err() == nil && !slices.Contains(all, l) {
				all = append(all, l)
			}
		}
	}
	return all
}
