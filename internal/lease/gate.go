package lease

import (
	"context"

	"github.com/doclock/doclock/internal/attempt"
)

// gate lets one command through at a time. Unlike a mutex it can be given up
// waiting for, and left by another goroutine than the one that entered.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

func (g gate) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return attempt.Ended(ctx)
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return attempt.Ended(ctx)
	}
}

// try enters if nobody is inside.
func (g gate) try() bool {
	select {
	case g <- struct{}{}:
		return true
	default:
		return false
	}
}

func (g gate) take() { g <- struct{}{} }

func (g gate) leave() { <-g }
