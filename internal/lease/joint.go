package lease

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/doclock/doclock"
)

// KeepAlive keeps several leases alive, each until it is released or lost or ctx
// ends. The context that it returns ends with the first loss, when all are
// released, or with ctx. The other leases are kept alive after a loss: their
// holder may have something to undo under them.
func KeepAlive(ctx context.Context, holders []*Handle) context.Context {
	return keep(ctx, holders, false)
}

// Work is KeepAlive for a function that runs under the leases, as that of a [Handle].
func Work(ctx context.Context, holders []*Handle) (work context.Context, end context.CancelCauseFunc) {
	j := keep(ctx, holders, true)
	return j, func(cause error) {
		if cause == nil {
			for _, h := range holders {
				h.KeepAlive(context.WithoutCancel(ctx))
			}
		}
		j.end(cmp.Or(cause, doclock.ErrReleased))
	}
}

func keep(ctx context.Context, holders []*Handle, outlasts bool) *joint {
	inner, end := context.WithCancelCause(ctx)
	j := &joint{Context: inner, holders: holders, outer: ctx, end: end, outlasts: outlasts}
	j.standing.Store(int32(len(holders)))
	for _, h := range holders {
		h.KeepAlive(ctx)
		if err := h.follow(j); err != nil {
			j.ended(err)
		}
	}
	context.AfterFunc(inner, func() {
		for _, h := range holders {
			h.unfollow(j)
		}
	})
	return j
}

// joint is the context of several leases. For each of them it is what a
// context of its own KeepAlive is: a command of a lease whose loss has ended
// the context still has its verdict.
type joint struct {
	context.Context
	holders  []*Handle
	standing atomic.Int32    // those that have not ended
	outer    context.Context // the one that KeepAlive was given
	end      context.CancelCauseFunc
	outlasts bool // a release of all doesn't end it
}

// Value implements context.Context.
func (j *joint) Value(key any) any {
	if key == (heldKey{}) {
		return j
	}
	for _, h := range j.holders {
		if key == (outerKey{h}) {
			return h.outer(j.outer)
		}
	}
	return j.Context.Value(key)
}

// ended implements follower.
func (j *joint) ended(cause error) {
	if last := j.standing.Add(-1) == 0 && !j.outlasts; last || errors.Is(cause, doclock.ErrLost) {
		j.end(cause)
	}
}
