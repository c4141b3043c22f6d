package lease

import (
	"context"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/observe"
)

// handoff is who gets the lock when a hold ends: a waiter of this process, or
// whoever asks first.
type handoff struct {
	hold     *Hold
	next     Successor // or nil
	answered bool      // next has its answer
}

// handoff claims the successor, if there is one. The caller must close it.
func (s *Hold) handoff() *handoff {
	return &handoff{hold: s, next: s.successor()}
}

// successor claims the waiter that gets the lock. A lock that may leave a
// remainder is handed over to nobody: the remainder would keep the waiter out.
func (s *Hold) successor() Successor {
	g := s.last()
	if !g.Until.IsZero() {
		return nil
	}
	return s.succession.Next(g)
}

// close tells the waiters of this process that the lock was released, or may
// have been: the next one asks the server. A successor that a command of
// unknown outcome was for asks by the same id, and so finds its entry.
func (o *handoff) close() {
	switch {
	case o.answered:
	case o.next != nil:
		o.next.Answer(engine.Answer{Outcome: engine.Lost})
	default:
		o.hold.succession.Released(o.hold.grant)
	}
}

// release releases the hold and hands it over, and reports whether it did.
// The successor's time runs from the first attempt, which may be the one that
// was executed.
func (o *handoff) release(ctx context.Context, first engine.Reading) (done bool, err error) {
	if o.next == nil {
		return false, nil
	}
	got, err := o.hold.commands.Handoff(ctx, o.hold.last(), o.next.Request())
	return o.answer(ctx, got, err, first)
}

// writeAndRelease does the same with an update. A successor that inherits the
// hold's time is not given a short one.
func (o *handoff) writeAndRelease(ctx context.Context, first engine.Reading, u *engine.Update) (done bool, err error) {
	if o.next == nil {
		return false, nil
	}
	s := o.hold
	can, inherits := s.engine.Piggybacks(s.grant, u, o.next.Request())
	if inherits {
		first = s.since()
		can = can && s.left() > s.grant.TTL*9/10
	}
	if !can {
		return false, nil
	}
	got, err := s.commands.WriteAndHandOff(ctx, s.grant, u, o.next.Request())
	return o.answer(ctx, got, err, first)
}

// answer tells the successor, and reports whether the hold was released. An
// attempt that finds nothing, or is refused, says nothing about the successor,
// and the lock can still be released to nobody. An attempt that leaves
// something unreadable was executed: the successor asks what it means. An
// attempt of which nothing happened, for a reason that passes, is repeated.
func (o *handoff) answer(ctx context.Context, got engine.Answer, err error, first engine.Reading) (done bool, _ error) {
	switch {
	case got.Image == nil && engine.AsFailure(err).Refused():
		return false, nil
	case got.Image == nil:
		return false, err
	case err == nil:
		o.answered, got.Sent = true, first
		if got.Outcome == engine.Granted {
			o.hold.tellAll(ctx, observe.HandedOver, nil)
		}
		o.next.Answer(got)
	}
	return true, nil
}
