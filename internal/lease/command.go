package lease

import (
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
)

// This file has what every command of a holder begins with: what is refused at
// once, the wait for its gates, and the caller who may give up.

// ready refuses what can be refused before anything is sent.
func (h *Handle) ready(ctx context.Context) error {
	switch {
	case engine.InTransaction(ctx):
		return h.hold.inTransaction()
	case !h.isIn():
		return h.hold.released()
	default:
		return nil
	}
}

// lockGate waits for a command's gate. If ctx ends first, the reason may be that
// the command before can't be sent.
func (s *Hold) lockGate(ctx context.Context, g *gate) error {
	if g.lockContext(ctx) == nil {
		return nil
	}
	err := s.notSent(ctx)
	if lost := s.err(); errors.Is(lost, doclock.ErrLost) {
		err = oneline.Join(err, lost)
	}
	return err
}

// run runs op to its end, and returns at once if the caller gives up first. If
// nothing was sent by then, nothing will be, and the error says so ([revoked]).
func (h *Handle) run(ctx context.Context, op func(context.Context) error) error {
	return h.runSending(ctx, h.hold.sending(nil), op)
}

func (h *Handle) runSending(ctx context.Context, sending *engine.Sending, op func(context.Context) error) error {
	err, gaveUp := runFor(ctx, h, sending, op, func(error) {})
	if gaveUp != nil {
		return gaveUp
	}
	return err
}

// runFor is run for a result that is more than an error. The result goes to
// abandoned if the caller gives up.
func runFor[T any](ctx context.Context, h *Handle, sending *engine.Sending, op func(context.Context) T, abandoned func(T)) (got T, err error) {
	ctx, stop := h.callerContext(ctx)
	defer stop()
	ctx = engine.WithSending(ctx, sending)
	got, gone := attempt.Run(ctx, h.hold.ops, func() T { return op(ctx) }, abandoned)
	switch {
	case gone == nil:
		return got, nil
	case sending.Revoke():
		return got, &notExecuted{h.hold.notSent(ctx), true}
	default:
		return got, h.hold.gaveUp(ctx)
	}
}

// callerContext ends when the caller gives up: with ctx, unless this lease ended
// ctx. A caller who releases a lease in the context that KeepAlive made still waits
// for the answer, until the context ends that KeepAlive was given. If ctx does not end
// (the caller detached it, [context.WithoutCancel]), that context doesn't count.
func (h *Handle) callerContext(ctx context.Context) (context.Context, context.CancelFunc) {
	caller, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unfollow := context.AfterFunc(ctx, func() {
		if context.Cause(ctx) != h.cause() {
			attempt.Relay(ctx, cancel)
			return
		}
		outer, stop := h.outer(ctx), context.CancelFunc(func() {})
		if deadline, limited := ctx.Deadline(); limited { // ctx has ended before
			outer, stop = context.WithDeadline(outer, deadline)
		}
		unfollowOuter := context.AfterFunc(outer, func() { attempt.Relay(outer, cancel) })
		context.AfterFunc(caller, func() { unfollowOuter(); stop() })
	})
	return caller, func() {
		unfollow()
		cancel(nil)
	}
}

// callerLeft says that the caller had given up before the call.
func (h *Handle) callerLeft(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	if context.Cause(ctx) != h.cause() {
		return true
	}
	deadline, limited := ctx.Deadline()
	return h.outer(ctx).Err() != nil || limited && !time.Now().Before(deadline)
}

// cause is why this holder's part has ended, without a look at the clock.
func (h *Handle) cause() error {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	return h.over
}

// outerKey finds the context that KeepAlive was given in the one that it made.
type outerKey struct{ holder *Handle }

// outer is the context that KeepAlive was given, if it made ctx or a parent of it,
// and else ctx.
func (h *Handle) outer(ctx context.Context) context.Context {
	if outer, kept := ctx.Value(outerKey{h}).(context.Context); kept {
		return outer
	}
	return ctx
}
