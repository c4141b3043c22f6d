package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock"
)

// nested acquires, inside of a Do, what its context holds.
func (r runner) nested(ctx context.Context, p *program, h *holding) error {
	name, _ := h.lease.DocumentID().StringValueOK()
	pl := r.planFor(p, h.group, name)
	for range 2 { // a reader reads again, more often than chance has it
		if pl.tag != h.lease.Tag() {
			pl = r.planFor(p, h.group, name)
		}
	}
	ctx, cancel := r.patienceIn(ctx)
	defer cancel()
	method, get := "TryAcquire", acquires(pl.locker.TryAcquire)
	if !r.one(3) {
		r.waiting(&pl)
		method, get = "Acquire", pl.locker.Acquire
	}
	if !r.one(4) {
		r.beside(name, h.group)
	}
	next := r.get(ctx, p, method, &pl, get)
	var c *doclock.ConflictError
	if errors.As(pl.by.err, &c) && slices.ContainsFunc(c.Holders, func(h doclock.Holder) bool { return h.InContext && h.Waiting }) {
		r.mu.Lock()
		r.behind++
		r.mu.Unlock()
	}
	r.use(next)
	if next == nil && r.one(2) {
		return fmt.Errorf("%w: %w", errWork, pl.by.err)
	}
	return nil
}

// beside has another goroutine acquire the same document, from outside, and gives it the
// time to wait.
func (r runner) beside(name string, g *group) {
	other := r.runner(1000*(1+r.number) + int(r.writes.Add(1)))
	p := r.programs[r.IntN(len(r.programs))]
	r.others.Go(func() {
		pl := other.planFor(p, g, name)
		ctx, cancel := other.patience()
		defer cancel()
		other.use(other.get(ctx, p, "Acquire", &pl, pl.locker.Acquire))
	})
	r.pause(200 * time.Millisecond)
}
