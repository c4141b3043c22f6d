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

// checkShared refuses to share tags whose holders would not get along.
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

// join gets a lease of an entry that others of this process hold, in one
// command if any. There is neither a lease nor an error where nobody can be
// joined.
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

// checked is what a check of a shared entry has shown.
type checked struct {
	lease    *lease.Handle
	image    *engine.Image
	conflict error
}

// check asks whether an entry may be joined. Where that can't be told, the
// acquire itself will tell.
func (a *acquisition) check(ctx context.Context, id uuid.UUID) checked {
	held, img, err := a.locker.leases.Look(ctx, id, a.into != nil)
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

// release releases the lease that nobody waits for, or that may not join.
func (c checked) release(a *acquisition) {
	if c.lease != nil {
		a.locker.cleanedUp(c.lease.Release(context.Background()))
	}
}
