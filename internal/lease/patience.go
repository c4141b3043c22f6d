package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
)

// ready refuses what can be refused before anything is sent.
func (l *Handle) ready(ctx context.Context) error {
	switch {
	case l.engine == nil:
		return ErrLost
	case attempt.InTransaction(ctx):
		return errInTransaction
	case l.given() != nil:
		return ErrReleased
	default:
		return nil
	}
}

// run runs op to its end, and returns at once where the caller gives up first.
// Where nothing was sent by then, nothing will be.
func (l *Handle) run(ctx context.Context, op func(patient context.Context) error) error {
	patient, stop := l.patience(ctx)
	defer stop()
	patient, sending := engine.Noted(patient) // with its caller's note, where a shared entry's holder runs it
	err, abandoned := attempt.Run(patient, l.ops, func() error { return op(patient) }, func(error) {})
	switch {
	case abandoned == nil:
		return err
	case sending.Revoke():
		return oneline.Join(ended(patient), l.engine.Unreachable())
	default:
		return gaveUp(patient)
	}
}

// enter waits for its turn. Where it is not had in time, the reason may be that
// the command before can't be sent.
func (l *Handle) enter(ctx context.Context, g gate) error {
	err := g.enter(ctx)
	if err == nil {
		return nil
	}
	return oneline.Join(err, l.engine.Unreachable())
}

// gaveUp is what a caller is told whose context ended during a command.
func gaveUp(ctx context.Context) error { return oneline.Join(ended(ctx), ErrOutcomeUnknown) }

// ended is the error of a context that ended. Where another lease's end is the
// context's cause it is left out: of this command it would say that it was not
// executed.
func ended(ctx context.Context) error {
	err := attempt.Ended(ctx)
	if errors.Is(err, ErrLost) {
		return ctx.Err()
	}
	return err
}

var errInTransaction = fmt.Errorf("%w: a lease's own methods don't take part in it; inside it, write with Guard as the filter", ErrInTransaction)

func unknown(command string, cause error) error {
	return fmt.Errorf("%w: %s: %w", ErrOutcomeUnknown, command, cause)
}

// patience is the caller's: it ends with ctx, unless it was this lease that
// ended ctx. Who releases a lease in the context that KeepAlive made has not
// given up waiting for the answer.
func (l *Handle) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	patient, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.CancelFunc(func() {})
	if deadline, limited := ctx.Deadline(); limited {
		patient, stop = context.WithDeadline(patient, deadline)
	}
	unfollow := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); cause != context.Cause(l.over) {
			cancel(cause)
		}
	})
	outer := l.outer(ctx)
	unfollowOuter := context.AfterFunc(outer, func() { cancel(context.Cause(outer)) })
	return patient, func() {
		unfollow()
		unfollowOuter()
		stop()
		cancel(nil)
	}
}
