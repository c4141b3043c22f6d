package multilock

import (
	"fmt"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
)

// This file makes of a grant what the caller gets: a lease, and the document.

// hold makes the lease of a grant. After its release an earlier attempt may still
// enter its id again.
func (a *acquisition) hold(g engine.Grant, sent engine.Reading, late unsure) *lease.Handle {
	held := a.locker.leases.New(g, sent, a.request.Shared)
	if late.n > 0 {
		held.AfterRelease(func() { a.discard(g.Pin, g.ID, late, false, nil) })
	}
	return held
}

// decode gives the caller the document. A lease whose document can't be decoded is
// released.
func (a *acquisition) decode(img *engine.Image, held *lease.Handle) error {
	return a.locker.decode(img, a.into, func() { a.locker.release(held, nil) })
}

// decode gives the caller the document, in the caller's own goroutine: a
// command whose caller gave up must not write into the caller's memory. If it can't
// be decoded, failed is called, also where the caller's own decoding panics.
func (l *Locker) decode(img *engine.Image, targets []any, failed func()) error {
	decoded := false
	defer func() {
		if !decoded { // or the caller's code has panicked
			failed()
		}
	}()
	for _, into := range targets {
		if err := l.engine.Decode(img, into); err != nil {
			return fmt.Errorf("doclock: decode the document into a %T: %w", into, err)
		}
	}
	decoded = true
	return nil
}
