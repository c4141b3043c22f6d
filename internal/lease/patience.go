package lease

import (
	"context"
	"errors"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
)

// This file has what every command of a holder begins with: what is refused at
// once, the wait for its turn, and the caller who may give up.

// ready refuses what can be refused before anything is sent.
func (h *Handle) ready(ctx context.Context) error {
	switch {
	case h.hold == nil:
		return ErrLost
	case attempt.InTransaction(ctx):
		return errInTransaction
	case h.leaving():
		return ErrReleased
	default:
		return nil
	}
}

// enter waits for a command's turn. Where the wait ends without it, the reason
// may be that the command before can't be sent.
func (s *Hold) enter(ctx context.Context, g *gate) error {
	err := g.enter(ctx)
	if err == nil {
		return nil
	}
	if !errors.Is(s.err(), ErrLost) { // the loss that may have ended ctx is another lease's
		err = ended(ctx)
	}
	return oneline.Join(err, s.commands.Unreachable())
}

// run runs op to its end, and returns at once where the caller gives up first.
// Where nothing was sent by then, nothing will be.
func (h *Handle) run(ctx context.Context, op func(patient context.Context) error) error {
	err, gaveUp := runFor(ctx, h, op, func(error) {})
	if gaveUp != nil {
		return gaveUp
	}
	return err
}

// runFor is run for a result that is more than an error. The result goes to
// abandoned if the caller gives up.
func runFor[T any](ctx context.Context, h *Handle, op func(patient context.Context) T, abandoned func(T)) (got T, err error) {
	patient, stop := h.patience(ctx)
	defer stop()
	sending := h.hold.sending()
	patient = engine.WithSending(patient, sending)
	got, gone := attempt.Run(patient, h.hold.ops, func() T { return op(patient) }, abandoned)
	switch {
	case gone == nil:
		return got, nil
	case sending.Revoke():
		return got, oneline.Join(ended(patient), h.hold.commands.Unreachable())
	default:
		return got, gaveUp(patient)
	}
}

// patience is the caller's: it ends with ctx, unless it was this lease that
// ended ctx. A caller who releases a lease in the context that KeepAlive made
// has not given up waiting for the answer. Such a caller's patience ends with the
// context that KeepAlive was given. That context means nothing where ctx goes on: the
// caller has detached ctx from it ([context.WithoutCancel]).
func (h *Handle) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	patient, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.CancelFunc(func() {})
	if deadline, limited := ctx.Deadline(); limited {
		patient, stop = context.WithDeadline(patient, deadline)
	}
	unfollow := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); cause != h.cause() {
			cancel(cause)
			return
		}
		outer := h.outer(ctx)
		unfollowOuter := context.AfterFunc(outer, func() { cancel(context.Cause(outer)) })
		context.AfterFunc(patient, func() { unfollowOuter() })
	})
	return patient, func() {
		unfollow()
		stop()
		cancel(nil)
	}
}

// cause is why this holder's part has ended, without a look at the clock.
func (h *Handle) cause() error {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	return h.over
}

// outerKey finds the context that KeepAlive was given in the one that it made.
type outerKey struct{ holder *Handle }

// outer is the context that KeepAlive was given, where it made ctx or a parent
// of it.
func (h *Handle) outer(ctx context.Context) context.Context {
	if outer, kept := ctx.Value(outerKey{h}).(context.Context); kept {
		return outer
	}
	return ctx
}
