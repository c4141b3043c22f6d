package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
)

// Delete implements doclock.Lease.
func (l *Handle) Delete(ctx context.Context) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	return l.giveAway(ctx, l.delete, func(ctx context.Context) (err, released error) { return l.share.deleteAndLeave(ctx, l) })
}

// delete returns the verdicts on the document and on the lock.
func (l *Handle) delete(ctx context.Context, next *succession) (err, released error) {
	if l.isLost() {
		released = l.release(attempt.Detached(ctx), next)
		return released, released
	}
	l.finish(ErrReleased) // before anything is sent
	bounded, cancel := context.WithTimeout(ctx, l.kept())
	defer cancel()
	var got engine.Answer
	unsure, err := attempt.Settle(bounded, l.engine.Attempt(l.grant.Tag), func(ctx context.Context) (err error) {
		for {
			got, err = l.engine.Delete(ctx, l.grant)
			if !engine.AsFailure(err).Again || !attempt.Sleep(ctx, rand.N(5*time.Millisecond)) {
				return err
			}
		}
	})
	switch {
	case err == nil:
		err = l.departed("delete", got.Outcome, unsure)
		return err, err
	case ctx.Err() == nil && engine.AsFailure(err).NotSent: // and neither can the release be
		err = fmt.Errorf("doclock: delete: %w", err)
		return err, err
	}
	released = l.release(attempt.Detached(ctx), next)
	switch {
	case unsure != nil:
		err = unknown("delete", unsure)
		return err, err
	case errors.Is(released, ErrLost):
		return oneline.Join(fmt.Errorf("doclock: delete: %w", err), ErrLost), released
	default:
		return fmt.Errorf("doclock: delete: %w", err), released
	}
}

// deleteAndLeave deletes for the only holder of a shared entry.
func (s *share) deleteAndLeave(ctx context.Context, l *Handle) (err, released error) {
	if !s.departAlone() {
		err = fmt.Errorf("%w: Delete: others of this process hold the document under %q too; delete under a tag that excludes them", ErrInvalidArgument, l.Tag())
		return err, err
	}
	l.finish(ErrReleased) // before anything is sent
	s.base.unfollow(l)
	err = s.base.Delete(ctx)
	return err, s.giveBack(attempt.Detached(ctx)) // which has its answer
}
