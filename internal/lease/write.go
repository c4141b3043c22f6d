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
func (l *Lease) Update(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	u, err := l.prepare(ctx, update, opts)
	if err != nil {
		return err
	}
	if err := l.lock(ctx, l.writing); err != nil {
		return err
	}
	if err := l.ready(ctx); err != nil { // a command before this one has ended the lease
		l.writing.unlock()
		return err
	}
	err = l.run(ctx, l.sending(nil), func(ctx context.Context) error {
		defer l.writing.unlock()
		return l.write(ctx, u)
	})
	l.emitUnknown(ctx, err)
	return engine.Raise(err)
}

// prepare checks an update and encodes it, in the caller's goroutine.
func (l *Lease) prepare(ctx context.Context, update any, opts []options.Lister[options.UpdateOneOptions]) (*engine.Update, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	u, err := l.engine.ParseUpdate(update, opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: update: %v: %w", doclock.ErrInvalidArgument, l.name(), err)
	}
	return u, nil
}

// write sends a guarded write under the next number.
func (l *Lease) write(ctx context.Context, u *engine.Update) error {
	if err := l.declaredLoss(); err != nil {
		return err
	}
	l.writes++
	k := l.writes
	var got engine.Answer
	unsure, err := attempt.Settle(ctx, l.bounds(), func(ctx context.Context) (err error) {
		got, err = l.commands.Write(ctx, l.grant, u, k)
		return err
	})
	switch {
	case err != nil && unsure == nil:
		return l.failed("update", err)
	case err != nil:
		return l.unknown("update", unsure)
	case got.Outcome == engine.Applied:
		return nil
	case unsure == nil:
		return l.lose(got)
	}
	// An earlier attempt may have been applied: the entry knows.
	img, err := l.read(ctx)
	if err != nil {
		return l.unknown("update", oneline.Join(unsure, err))
	}
	own, present := ownEntry(img, l.grant)
	switch {
	case present && own.Writes >= k:
		return nil
	case !present:
		_ = l.lose(engine.Answer{Image: img, Gone: img == nil})
	}
	return l.unknown("update", unsure)
}

// provesNotApplied says that the absence of the lease's id from `done` proves
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
