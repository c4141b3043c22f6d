package multilock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
)

var errInTransaction = fmt.Errorf("%w: lock before it starts", doclock.ErrInTransaction)

// holdOfSeveral refuses HoldAtLeast for a shared tag: the last holder to leave
// would decide for all.
func holdOfSeveral(tag string) error {
	return fmt.Errorf("%w: HoldAtLeast for %q, whose holders share an entry (ShareInProcess); give it for a tag that is not shared", doclock.ErrInvalidArgument, tag)
}

// notAcquired makes the error of an acquire from its cause.
func notAcquired(err error) error {
	if err == nil || errors.Is(err, doclock.ErrNotAcquired) {
		return err
	}
	return oneline.Because(doclock.ErrNotAcquired, err)
}

// endedBy reports that err is the end of ctx, or Close.
func endedBy(ctx context.Context, err error) bool {
	return errors.Is(err, doclock.ErrClosed) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
}

// conflict names the entries of an image that block an arrival under the tag, or
// the waiting entry own.
func conflict(e *engine.Engine, img *engine.Image, tag string, own *engine.Entry) error {
	entries, free := e.InTheWay(img, tag, own)
	if len(entries) == 0 {
		return fmt.Errorf("%w: document %s was left as it is, though nothing in its lock is in the way of %q", doclock.ErrForeignLock, img.ID, tag)
	}
	return inTheWay(img, tag, entries, free)
}

// inTheWay is the conflict with these entries of an image.
func inTheWay(img *engine.Image, tag string, entries []engine.Entry, free time.Duration) error {
	c := &doclock.ConflictError{Tag: tag, DocumentID: img.ID, RetryAfter: free}
	for _, e := range entries {
		h := doclock.Holder{Tag: e.Tag, ID: e.ID, Owner: e.Owner, Since: e.Since, Waiting: !e.Held()}
		if !img.Whole() { // which has no clock
			h.Remaining = e.Expires.Sub(img.Now)
			h.AtLeast = max(0, e.Until.Sub(img.Now))
		}
		c.Holders = append(c.Holders, h)
	}
	return c
}

// explain names the causes that a user can remove.
func explain(command string, err error) error {
	failure := engine.AsFailure(err)
	if failure.Again {
		return fmt.Errorf("%w: %w", doclock.ErrNotFound, err)
	}
	switch failure.Cause {
	case engine.CauseForeign:
		return fmt.Errorf("%w: %w", doclock.ErrForeignLock, err)
	case engine.CauseUnsupported:
		return fmt.Errorf("%w: %w", doclock.ErrUnsupportedServer, err)
	case engine.CauseValidator:
		return fmt.Errorf("doclock: %s: the collection's validator refuses the lock field; allow it there: %w", command, err)
	case engine.CauseView:
		return fmt.Errorf("doclock: %s: the collection is a view; lock in the collection behind it: %w", command, err)
	case engine.CauseCapped:
		return fmt.Errorf("doclock: %s: the collection is capped, its documents can't grow; lock in another one: %w", command, err)
	case engine.CauseShardKey:
		return fmt.Errorf("doclock: %s: the collection is sharded; the filter needs an equality on every field of its shard key, and the Locker the option ShardKey: %w", command, err)
	default:
		return fmt.Errorf("doclock: %s: %w", command, err)
	}
}
