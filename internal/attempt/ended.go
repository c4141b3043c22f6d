package attempt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
)

// Over is the cause of a context that ends only a wait: the caller's own
// context goes on.
type Over struct{ After time.Duration }

func (o *Over) Error() string { return fmt.Sprintf("waited for %v", o.After) }

// ended is the error of a context that ended.
type ended struct{ error }

func (e *ended) Unwrap() error { return e.error }

// Ended returns the error of a context that ended: [context.Context.Err], with
// the cause if it has another one. If a wait ended, it is the [Over] alone.
//
// A cause that is an error of the library's is in the text alone. It speaks of the
// call that ended ctx, as a goroutine of an errgroup does by its error, and
// [errors.Is] would take it for the outcome of the call that ctx has ended.
func Ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch cause := cause.(type) { // these are never wrapped
	case *Over:
		return cause
	case *relayed:
		return cause.error
	}
	if isOurs(cause) {
		cause = errors.New(cause.Error())
	}
	return &ended{oneline.Join(ctx.Err(), cause)}
}

// relayed is the end of a context that ends another one, which is not its child.
type relayed struct{ error }

// Relay ends a context as ctx has ended: Ended is the same for both.
func Relay(ctx context.Context, cancel context.CancelCauseFunc) { End(cancel, Ended(ctx)) }

// End ends a context so that Ended is this error.
func End(cancel context.CancelCauseFunc, err error) { cancel(&relayed{err}) }

// EndedBy reports that err is the end of ctx, or of a wait that ctx bounds.
func EndedBy(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.As(err, new(*ended)) || errors.As(err, new(*Over)))
}

// verdicts are what the errors of the library say.
var verdicts = []error{
	doclock.ErrNotAcquired, doclock.ErrNotFound, doclock.ErrConflict, doclock.ErrLost, doclock.ErrReleased, doclock.ErrClosed,
	doclock.ErrInvalidArgument, doclock.ErrInTransaction, doclock.ErrForeignLock, doclock.ErrOutcomeUnknown, doclock.ErrUnsupportedServer,
}

// isOurs reports that err says how a call of the library ended.
func isOurs(err error) bool {
	return errors.As(err, new(*engine.Failure)) ||
		slices.ContainsFunc(verdicts, func(verdict error) bool { return errors.Is(err, verdict) })
}
