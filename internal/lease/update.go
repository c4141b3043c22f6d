package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Update implements doclock.Lease.
func (l *Handle) Update(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	u, err := l.prepare(ctx, update, opts)
	if err != nil {
		return err
	}
	return l.update(ctx, u)
}

func (l *Handle) update(ctx context.Context, u *engine.Update) error {
	if err := l.enter(ctx, l.writing); err != nil {
		return err
	}
	if l.given() != nil {
		l.writing.leave()
		return ErrReleased
	}
	if l.share != nil {
		return l.run(ctx, func(patient context.Context) error {
			defer l.writing.leave()
			return l.share.update(patient, u)
		})
	}
	l.writes++
	k := l.writes
	return l.run(ctx, func(patient context.Context) error {
		defer l.writing.leave()
		return l.write(patient, u, k)
	})
}

// UpdateAndRelease implements doclock.Lease.
func (l *Handle) UpdateAndRelease(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	u, err := l.prepare(ctx, update, opts)
	if err != nil {
		return err
	}
	return l.updateAndRelease(ctx, u)
}

func (l *Handle) updateAndRelease(ctx context.Context, u *engine.Update) error {
	return l.giveAway(ctx,
		func(ctx context.Context, next *succession) (err, released error) {
			return l.writeAndRelease(ctx, u, next)
		},
		func(ctx context.Context) (err, released error) { return l.share.writeAndLeave(ctx, l, u) })
}

func (l *Handle) prepare(ctx context.Context, update any, opts []options.Lister[options.UpdateOneOptions]) (*engine.Update, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	u, err := l.engine.ParseUpdate(update, opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: update: %w", ErrInvalidArgument, err)
	}
	return u, nil
}

func (l *Handle) write(ctx context.Context, u *engine.Update, k int64) error {
	if l.isLost() {
		return ErrLost
	}
	var got engine.Answer
	unsure, err := attempt.Settle(ctx, l.engine.Attempt(l.grant.Tag), func(ctx context.Context) (err error) {
		got, err = l.engine.Write(ctx, l.grant, u, k)
		return err
	})
	switch {
	case err != nil && unsure == nil:
		return fmt.Errorf("doclock: update: %w", err)
	case err != nil:
		return unknown("update", unsure)
	case got.Outcome == engine.Applied:
		return nil
	case unsure == nil:
		l.lose()
		return ErrLost
	}
	// An earlier attempt may have been applied: the entry knows.
	img, err := l.read(ctx)
	if err != nil {
		return unknown("update", oneline.Join(unsure, err))
	}
	own, present := find(img, l.grant)
	switch {
	case present && own.Writes >= k:
		return nil
	case present:
		return unknown("update", unsure)
	default:
		l.lose()
		return unknown("update", unsure)
	}
}

// writeAndRelease returns the update's verdict and the release's. Where an
// update rides on a compare-and-set that finds something else, it goes by
// itself. That is safe even if an earlier attempt is still on its way: both
// need the lease's entry, and both remove it.
func (l *Handle) writeAndRelease(ctx context.Context, u *engine.Update, next *succession) (err, released error) {
	if l.isLost() {
		released = l.release(attempt.Detached(ctx), next)
		return released, released
	}
	l.finish(ErrReleased) // before anything is sent
	bounded, cancel := context.WithTimeout(ctx, l.kept())
	defer cancel()
	got, first := engine.Answer{Outcome: engine.Applied}, l.engine.Clocks()
	unsure, err := attempt.Settle(bounded, l.engine.Attempt(l.grant.Tag), func(ctx context.Context) error {
		done, err := next.writeAndHandOff(ctx, first, u)
		if !done && err == nil {
			got, err = l.engine.WriteAndRelease(ctx, l.grant, u)
		}
		return err
	})
	switch {
	case ctx.Err() == nil && engine.AsFailure(err).NotSent: // and neither can the release be
		err = fmt.Errorf("doclock: update: %w", err)
		return err, err
	case err != nil && unsure == nil:
		released = l.release(attempt.Detached(ctx), next)
		err = fmt.Errorf("doclock: update: %w", err)
		if errors.Is(released, ErrLost) {
			err = oneline.Join(err, ErrLost)
		}
		return err, released
	case err != nil:
		_ = l.release(attempt.Detached(ctx), next) // what it finds can't tell more
		err = unknown("update", unsure)
		return err, err
	case got.Outcome == engine.Applied:
		return nil, nil
	case unsure == nil:
		return ErrLost, ErrLost
	}
	img, err := l.read(ctx)
	switch {
	case err != nil:
		err = unknown("update", oneline.Join(unsure, err))
	case img != nil && img.Lock.FinishedBy(l.grant.ID):
		err = nil
	case provesNotApplied(img, l.grant):
		err = ErrLost
	default:
		err = unknown("update", unsure)
	}
	_ = l.release(attempt.Detached(ctx), next) // a late duplicate may have brought the id back
	return err, err
}

// provesNotApplied says whether the absence of the lease's id from `done` can
// be trusted: nothing was pushed out of it since the grant, and nobody erased
// or replaced the lock field.
func provesNotApplied(img *engine.Image, g engine.Grant) bool {
	if img == nil || img.Lock.Fence < g.Fence {
		return false
	}
	if _, present := find(img, g); present {
		return false
	}
	if g.LastDone == uuid.Nil {
		return len(img.Lock.Done) < engine.DoneCap
	}
	return img.Lock.FinishedBy(g.LastDone)
}

// read asks the document for the verdict on a write of unknown outcome.
func (l *Handle) read(ctx context.Context) (img *engine.Image, err error) {
	ctx, cancel := context.WithTimeout(attempt.Detached(ctx), l.kept())
	defer cancel()
	_, err = attempt.Settle(ctx, l.engine.Attempt(l.grant.Tag), func(ctx context.Context) (err error) {
		img, err = l.engine.Read(ctx, l.grant.Pin)
		return err
	})
	return img, err
}

func find(img *engine.Image, g engine.Grant) (engine.Entry, bool) {
	if img == nil {
		return engine.Entry{}, false
	}
	own, present := img.Lock.Find(g.Tag, g.ID)
	return own, present && own.Fence == g.Fence
}
