package lease

import (
	"context"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Update implements doclock.Lease.
func (h *Handle) Update(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	u, err := h.prepare(ctx, update, opts)
	if err != nil {
		return err
	}
	if err := h.hold.lockGate(ctx, &h.writing); err != nil {
		return err
	}
	if !h.isIn() {
		h.writing.unlock()
		return h.hold.released()
	}
	err = h.run(ctx, func(ctx context.Context) error {
		defer h.writing.unlock()
		return h.hold.write(ctx, u)
	})
	h.emitUnknown(ctx, err)
	return engine.Raise(err)
}

// prepare checks an update and encodes it, in the caller's goroutine.
func (h *Handle) prepare(ctx context.Context, update any, opts []options.Lister[options.UpdateOneOptions]) (*engine.Update, error) {
	if err := h.ready(ctx); err != nil {
		return nil, err
	}
	u, err := h.hold.engine.ParseUpdate(update, opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: update: %v: %w", doclock.ErrInvalidArgument, h.hold, err)
	}
	return u, nil
}

// write sends a guarded write for one of the holders, who doesn't leave before its
// answer. Writes are numbered over all holders.
func (s *Hold) write(ctx context.Context, u *engine.Update) error {
	if err := s.lockGate(ctx, &s.writing); err != nil {
		return &notExecuted{error: err}
	}
	defer s.writing.unlock()
	if s.in(ending, gone) { // by another holder, after the end of the validity
		return s.err()
	}
	s.writes++
	k := s.writes
	if err := s.declaredLoss(); err != nil {
		return err
	}
	var got engine.Answer
	unsure, err := attempt.Settle(ctx, s.engine.Attempt(s.grant.TTL), func(ctx context.Context) (err error) {
		got, err = s.commands.Write(ctx, s.grant, u, k)
		return err
	})
	switch {
	case err != nil && unsure == nil:
		return s.failed("update", err)
	case err != nil:
		return s.unknown("update", unsure)
	case got.Outcome == engine.Applied:
		return nil
	case unsure == nil:
		return s.lose(got)
	}
	// An earlier attempt may have been applied: the entry knows.
	img, err := s.read(ctx)
	if err != nil {
		return s.unknown("update", oneline.Join(unsure, err))
	}
	own, present := ownEntry(img, s.grant)
	switch {
	case present && own.Writes >= k:
		return nil
	case present:
		return s.unknown("update", unsure)
	default:
		_ = s.lose(engine.Answer{Image: img, Gone: img == nil})
		return s.unknown("update", unsure)
	}
}

// read asks the document for the verdict on a write of unknown outcome.
func (s *Hold) read(ctx context.Context) (img *engine.Image, err error) {
	_, err = s.settle(attempt.Detached(ctx), func(ctx context.Context) (err error) {
		img, err = s.commands.Read(ctx, s.grant.Pin)
		return err
	})
	return img, err
}

// provesNotApplied says that the absence of the hold's id from `done` proves
// that its last write was not applied (rule 18): an id that was there at the grant is
// there still, so nothing was pushed out of `done`, and nobody erased or replaced it.
func provesNotApplied(img *engine.Image, g engine.Grant) bool {
	if img == nil || img.Lock.Fence < g.Fence {
		return false
	}
	if _, present := ownEntry(img, g); present {
		return false
	}
	return g.LastDone != uuid.Nil && img.Lock.FinishedBy(g.LastDone)
}

// ownEntry is the grant's own entry in the image.
func ownEntry(img *engine.Image, g engine.Grant) (engine.Entry, bool) {
	if img == nil {
		return engine.Entry{}, false
	}
	own, present := img.Lock.Find(g.Tag, g.ID)
	return own, present && own.Fence == g.Fence
}
