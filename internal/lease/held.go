package lease

import (
	"context"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// This file finds the leases that a context holds: those whose KeepAlive has made it,
// or a parent of it.

// heldKey finds the innermost context of a KeepAlive.
type heldKey struct{}

// holding is a context that KeepAlive made.
type holding interface {
	held() []*Handle
	given() context.Context // the one that it was made of
}

func (c *keptContext) held() []*Handle        { return []*Handle{c.holder} }
func (c *keptContext) given() context.Context { return c.Context }
func (j *joint) held() []*Handle              { return j.holders }
func (j *joint) given() context.Context       { return j.Context }

// HeldBy are the leases that the context holds, or has held.
func HeldBy(ctx context.Context) (all []*Handle) {
	for {
		of, made := ctx.Value(heldKey{}).(holding)
		if !made {
			return all
		}
		for _, h := range of.held() {
			if !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
		ctx = of.given()
	}
}

// Standing is the lease's entry, as far as this process knows it, and whether the
// lease still holds it: it is neither lost nor being released, detached or
// downgraded.
func (h *Handle) Standing() (entry engine.Entry, standing bool) {
	s := h.hold
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.check() != nil || h.over != nil || h.released != nil || s.phase != held {
		return engine.Entry{}, false
	}
	now, entry := s.engine.Clocks(), s.grant.Entry
	entry.Expires = now.Wall.Add(s.validity.left(now) + s.engine.Tolerance).Truncate(time.Millisecond)
	return entry, true
}

// Document is where the lease's entry is.
func (h *Handle) Document() (*engine.Engine, engine.Pin) { return h.hold.engine, h.hold.grant.Pin }
