package attempt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock/internal/oneline"
)

// Over is the cause of a context that ends only a wait: the caller's own
// context goes on.
type Over struct{ After time.Duration }

func (o *Over) Error() string { return fmt.Sprintf("waited for %v", o.After) }

// Ended returns the error of a context that ended: [context.Context.Err], with
// the cause if it has another one. If a wait ended, it is the [Over] alone.
func Ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if over, ok := cause.(*Over); ok { // it is never wrapped
		return over
	}
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return oneline.Join(ctx.Err(), cause)
}
