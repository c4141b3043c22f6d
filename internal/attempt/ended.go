package attempt

import (
	"context"
	"errors"
)

// Ended is the error of a context that ended: what [context.Context.Err] says,
// and the cause where it was given another.
func Ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return errors.Join(ctx.Err(), cause)
}
