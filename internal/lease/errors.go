package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
)

// The errors of a lease's methods are made in this file.
var (
	ErrLost            = attempt.ErrLost
	ErrReleased        = attempt.ErrReleased
	ErrOutcomeUnknown  = attempt.ErrOutcomeUnknown
	ErrInvalidArgument = attempt.ErrInvalidArgument
	ErrInTransaction   = attempt.ErrInTransaction
)

var errInTransaction = fmt.Errorf("%w: a lease's own methods don't take part in it; inside it, write with Guard as the filter", ErrInTransaction)

func invalidUpdate(cause error) error {
	return fmt.Errorf("%w: update: %w", ErrInvalidArgument, cause)
}

// failed is the error of a command that was certainly not executed.
func failed(command string, cause error) error {
	return &notExecuted{fmt.Errorf("doclock: %s: %w", command, cause)}
}

// notExecuted marks the error of a command that the server refused, or that was not
// sent.
type notExecuted struct{ error }

func (e *notExecuted) Unwrap() error { return e.error }

// repeatable says of a release's error that the entry still stands, unless it has
// expired: the server refused the release, or it was not sent.
func repeatable(err error) bool { return err != nil && errors.As(err, new(*notExecuted)) }

// judged is a release's error as a verdict on the lock. A release that was not
// executed says nothing of the lock by itself. While the lease's time lasts, the
// server lets nobody in. After that nobody knows. Nor does anybody know after a
// server has found no entry, without a proof, or after a downgrade of unknown outcome.
func (s *Hold) judged(err error) error {
	switch {
	case !repeatable(err), errors.Is(err, ErrOutcomeUnknown):
		return err
	case engine.AsFailure(err).Unproven:
		return fmt.Errorf("%w: the entry was not found, and others may have been let in: %w", ErrOutcomeUnknown, err)
	case s.doubted():
		return fmt.Errorf("%w: a downgrade may have been executed, and others may have been let in: %w", ErrOutcomeUnknown, err)
	case s.left() <= 0:
		return fmt.Errorf("%w: the lease's time is up, and others may have been let in: %w", ErrOutcomeUnknown, err)
	default:
		return err
	}
}

// unknown is the error of a command that may have been executed, or may be yet.
func unknown(command string, cause error) error {
	return fmt.Errorf("%w: %s: %w", ErrOutcomeUnknown, command, cause)
}

// gaveUp is the error of a caller whose context ended during a command.
func gaveUp(ctx context.Context) error {
	return oneline.Join(attempt.Ended(ctx), ErrOutcomeUnknown)
}

// heldAtMost is the loss of a lease whose HoldAtMost is over.
func heldAtMost(d time.Duration) error {
	return fmt.Errorf("%w: held for the HoldAtMost of %v", ErrLost, d)
}

// errLimitedDetach refuses to leave an entry to others that must end with its holder.
var errLimitedDetach = fmt.Errorf("%w: Detach: the lease has a HoldAtMost, and the entry of a token outlives its leases; acquire without it what is to be detached", ErrInvalidArgument)
