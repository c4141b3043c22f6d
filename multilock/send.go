package multilock

import (
	"context"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
)

// reply is the result of an acquire or a confirm.
type reply struct {
	engine.Answer
	unsure unsure // attempts beside the one that was answered
	err    error
}

// run runs a command as [attempt.Run] does, within the bounds of what may be
// under way; abandoned calls done once what the command entered is removed.
// With err nothing was sent.
func run[T any](ctx context.Context, a *acquisition, closing <-chan struct{}, op func() T, abandoned func(got T, done func())) (got T, gaveUp, err error) {
	ended, leave, err := a.locker.inflight.enter(ctx, a.lane, closing)
	if err != nil {
		return got, nil, err
	}
	got, gaveUp = attempt.Run(ctx, &a.locker.ops, func() T {
		defer ended()
		return op()
	}, func(got T) { abandoned(got, leave) })
	if gaveUp == nil {
		leave()
	}
	return got, gaveUp, nil
}

// send sends one acquire. Without an error the document has its entry, granted or
// waiting.
func (a *acquisition) send(ctx context.Context) (engine.Answer, error) {
	got, gaveUp, err := run(ctx, a, a.locker.ops.Closing(), func() reply { return a.ask(ctx) }, a.undo)
	if err != nil {
		return engine.Answer{}, err
	}
	if gaveUp != nil {
		a.gone = true
		return engine.Answer{}, gaveUp
	}
	a.unsure.add(got.unsure)
	if got.err != nil {
		return engine.Answer{}, got.err
	}
	a.seen = got.Image
	switch got.Outcome {
	case engine.Granted, engine.Waiting:
		return got.Answer, nil
	case engine.Conflict:
		a.filter = a.filter.At(a.locker.engine.Pin(got.Image))
		return engine.Answer{}, a.conflict(got.Image, nil)
	default:
		return engine.Answer{}, doclock.ErrNotFound
	}
}

// ask sends the acquire until it is answered. Only a filter that pins the
// document may be sent twice: another one could find another document. It runs
// in the locker's group: a Close that came before is seen here, one that comes
// later waits.
func (a *acquisition) ask(ctx context.Context) (got reply) {
	if a.locker.closing() {
		return reply{err: doclock.ErrClosed}
	}
	settle := attempt.Settle
	if a.filter.Pin == nil {
		settle = attempt.SettleOnce
	}
	unsure, err := settle(ctx, a.timeout, func(ctx context.Context) (err error) {
		got.Answer, err = a.locker.commands.Acquire(ctx, a.filter, a.request.Request)
		got.unsure.note(err)
		return err
	})
	got.err = a.unanswered("acquire", unsure, err)
	return got
}

// confirm asks for the place of an entry, until it is answered.
func (a *acquisition) confirm(ctx context.Context, pin engine.Pin) (got reply) {
	unsure, err := attempt.Settle(ctx, a.timeout, func(ctx context.Context) (err error) {
		got.Answer, err = a.locker.commands.Confirm(ctx, pin, a.request.Request)
		return err
	})
	got.err = a.unanswered("confirm", unsure, err)
	return got
}

// unanswered explains why a command has no answer. If no server could be reached
// for long, the acquires that wait to send theirs need not try.
func (a *acquisition) unanswered(command string, unsure, err error) error {
	switch {
	case err == nil:
		return nil
	case unsure != nil:
		return explain(command, unsure)
	}
	explained := explain(command, err)
	if engine.AsFailure(err).NotSent {
		a.locker.inflight.fail(explained)
	}
	return explained
}

// undo removes the entry that an acquire has made, or may make, after its caller
// gave up.
func (a *acquisition) undo(got reply, done func()) {
	a.unsure.add(got.unsure)
	pin, entered := a.filter.Pin, got.err == nil && (got.Outcome == engine.Granted || got.Outcome == engine.Waiting)
	if entered {
		pin = a.locker.engine.Pin(got.Image)
	}
	a.discard(pin, a.request.ID, a.unsure, entered, func(error) { a.end(done) })
}
