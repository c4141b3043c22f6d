package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/doclock/doclock"
)

// KeepAlive implements doclock.Lease.
func (h *Handle) KeepAlive(ctx context.Context) context.Context { return h.keep(ctx, false) }

// Work is KeepAlive for a function that runs under the lease. A release doesn't end its context: what the function does
// after its last write goes on. end ends it for another cause, or for that the function has returned: nil. Then a release
// follows, which may have to wait for a write: the lease is renewed until it is sent.
func (h *Handle) Work(ctx context.Context) (work context.Context, end context.CancelCauseFunc) {
	kept := h.keep(ctx, true)
	return kept, func(cause error) {
		if cause == nil {
			h.KeepAlive(context.WithoutCancel(ctx))
		}
		kept.end(cmp.Or(cause, h.hold.released()))
	}
}

func (h *Handle) keep(ctx context.Context, outlasts bool) *keptContext {
	inner, end := context.WithCancelCause(ctx)
	kept := &keptContext{Context: inner, holder: h, outer: ctx, end: end}
	renewed := inner
	if outlasts {
		renewed, kept.stop = context.WithCancel(inner)
	}
	kept.outer = h.outer(ctx)
	if err := h.follow(kept); err != nil {
		end(err)
		return kept
	}
	h.hold.holds.keeper.keep(h.hold)
	context.AfterFunc(renewed, func() {
		h.unfollow(kept)
		h.hold.holds.keeper.dismiss(h.hold)
	})
	return kept
}

// keptContext is a context that KeepAlive made. There may be ten thousand of
// them, and a child of a context that ends with the lease would cost twice as
// much.
type keptContext struct {
	context.Context
	holder *Handle
	outer  context.Context // the one that KeepAlive was given
	end    context.CancelCauseFunc
	stop   context.CancelFunc // ends the renewals at a release that doesn't end the context; else nil
}

// Value implements context.Context.
func (c *keptContext) Value(key any) any {
	switch key {
	case outerKey{c.holder}:
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

// follow has another end with the holder's part, or returns why that has ended.
func (h *Handle) follow(f follower) error {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	_ = h.hold.check()
	if h.over == nil {
		h.followers = append(h.followers, f)
	}
	return h.over
}

func (h *Handle) unfollow(f follower) {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	h.followers = slices.DeleteFunc(h.followers, func(other follower) bool { return other == f })
}
