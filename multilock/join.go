package multilock

import (
	"context"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
)

// checkShared refuses to share a tag whose holders can't share an entry.
func checkShared(e *engine.Engine) error {
	var faults []error
	for _, tag := range e.Shared {
		if _, known := e.Rules()[tag]; !known {
			faults = append(faults, fmt.Errorf("%w: ShareInProcess is for %q, %s", doclock.ErrInvalidArgument, tag, unknownTag(e.Rules())))
		} else if reason := e.Rules().CheckShareable(tag); reason != nil {
			faults = append(faults, fmt.Errorf("%w: holders of %q can't share an entry: %w", doclock.ErrInvalidArgument, tag, reason))
		}
	}
	return oneline.Join(faults...)
}

// join returns a lease of an entry that other holders of this process have. It
// sends one command or none. Without an entry that can be joined it returns
// neither a lease nor an error.
func (a *acquisition) join(ctx context.Context) (*lease.Handle, error) {
	held, check, err := a.locker.queues.Join(ctx, a.document, a.request)
	if check == nil {
		return held, err
	}
	got, gaveUp, err := run(ctx, a, a.locker.ops.Closing(), func() checked {
		got := a.check(ctx, check.ID)
		check.End(got.image)
		return got
	}, func(got checked, done func()) {
		got.release(a)
		a.end(done)
	})
	if err != nil { // nothing was sent
		check.End(nil)
		return nil, err
	}
	if gaveUp != nil {
		a.gone = true
		return nil, gaveUp
	}
	if got.image != nil {
		a.seen = got.image
	}
	if got.lease == nil {
		return nil, got.conflict
	}
	if err := a.decode(got.image, got.lease); err != nil {
		return nil, err
	}
	return got.lease, nil
}

// checked is the result of a check of a shared entry.
type checked struct {
	lease    *lease.Handle
	image    *engine.Image
	conflict error
}

// check asks whether an entry may be joined. If the check fails, the acquire
// itself asks.
func (a *acquisition) check(ctx context.Context, id uuid.UUID) checked {
	held, img, err := a.locker.leases.Look(ctx, id, len(a.into) > 0)
	if err != nil {
		return checked{}
	}
	got := checked{lease: held, image: img}
	if blocking, _ := a.locker.engine.InTheWay(img, a.request.Tag, nil); len(blocking) > 0 {
		got.release(a)
		return checked{image: img, conflict: a.conflict(img, nil)}
	}
	return got
}

// release releases a lease without a caller, or one that may not join.
func (c checked) release(a *acquisition) {
	if c.lease != nil {
		a.locker.cleanedUp(c.lease, c.lease.Release(context.Background()))
	}
}
