package multilock

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
)

var errInTransaction = fmt.Errorf("%w: lock before it starts", doclock.ErrInTransaction)

// notAcquired makes the error of an acquire of what went wrong.
func notAcquired(err error) error {
	if err == nil || errors.Is(err, doclock.ErrNotAcquired) {
		return err
	}
	return oneline.Because(doclock.ErrNotAcquired, err)
}

// failed makes the error of an acquire. Where it was ended from outside, by its
// context, MaxWait or Close, the error says who is in the way, as far as this
// process knows, and why no server can be reached, if that is so.
func (a *acquisition) failed(ctx context.Context, err error) error {
	if endedBy(ctx, err) {
		var known error
		if !errors.Is(err, doclock.ErrConflict) {
			known = a.locker.queue.known(a)
		}
		err = oneline.Join(err, known, a.locker.engine.Unreachable())
	}
	return notAcquired(err)
}

// cutShort joins the last conflict to the error of a wait that was ended from
// outside.
func cutShort(ctx context.Context, err, last error) error {
	if endedBy(ctx, err) {
		return oneline.Join(err, last)
	}
	return err
}

// endedBy reports that err is the end of ctx, or Close.
func endedBy(ctx context.Context, err error) bool {
	return errors.Is(err, doclock.ErrClosed) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
}

func (a *acquisition) refuseMaxWait(call string) error {
	if a.maxWait == nil {
		return nil
	}
	return fmt.Errorf("%w: %s doesn't wait; give MaxWait to Acquire or Do", doclock.ErrInvalidArgument, call)
}

// conflict explains an image to the caller.
func (a *acquisition) conflict(img *engine.Image, own *engine.Entry) error {
	entries, free := a.locker.engine.InTheWay(img, a.request.Tag, own)
	if len(entries) == 0 {
		return fmt.Errorf("%w: document %s was left as it is, though nothing in its lock is in the way of %q", doclock.ErrForeignLock, img.ID, a.request.Tag)
	}
	c := &doclock.ConflictError{Tag: a.request.Tag, DocumentID: img.ID, RetryAfter: free}
	for _, e := range entries {
		h := doclock.Holder{Tag: e.Tag, ID: e.ID, Owner: e.Owner, Since: e.Since, Waiting: !e.Held()}
		if !img.Whole() { // which has no clock
			h.Remaining = e.Expires.Sub(img.Now)
		}
		c.Holders = append(c.Holders, h)
	}
	return c
}

// refused explains why a command was not executed. Where no server could be
// reached for long, those who wait to send theirs need not try.
func (a *acquisition) refused(command string, err error) error {
	explained := explain(command, err)
	if engine.AsFailure(err).NotSent {
		a.locker.inflight.fail(explained)
	}
	return explained
}

// explain names the causes that a user can do something about.
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
