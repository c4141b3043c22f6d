package lease

import (
	"context"
	"slices"
)

// KeepAlive implements doclock.Lease.
func (h *Handle) KeepAlive(ctx context.Context) context.Context {
	inner, end := context.WithCancelCause(ctx)
	kept := &keptContext{Context: inner, holder: h, outer: ctx, end: end}
	if err := h.ended(); err != nil {
		end(err)
		return kept
	}
	kept.outer = h.outer(ctx)
	h.hold.holds.keeper.keep(h.hold)
	h.follow(kept)
	context.AfterFunc(inner, func() {
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
func (c *keptContext) ended(cause error) { c.end(cause) }

// follow has another end with the holder's part.
func (h *Handle) follow(f follower) {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	if h.over != nil { // it has ended meanwhile
		f.ended(h.over)
		return
	}
	h.followers = append(h.followers, f)
}

func (h *Handle) unfollow(f follower) {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	h.followers = slices.DeleteFunc(h.followers, func(other follower) bool { return other == f })
}
