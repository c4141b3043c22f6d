package lease

import (
	"context"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
)

// handoff is who gets the lock when a hold ends: a waiter of this process, or
// whoever asks first.
type handoff struct {
	hold   *Hold
	next   *engine.Successor // or nil
	answer engine.Answer     // to next; without an image, nobody knows
}

// handoff claims the successor, if there is one. The caller must close it.
func (s *Hold) handoff() *handoff {
	return &handoff{hold: s, next: s.successor()}
}

// successor claims the waiter that gets the lock. A lock that may leave a
// remainder is handed over to nobody: the remainder would keep the waiter out.
func (s *Hold) successor() *engine.Successor {
	g := s.last()
	if !g.Until.IsZero() {
		return nil
	}
	return s.succession.Next(g)
}

// close reports to the Locker that a command with this verdict has released the lock,
// or may have. A successor without an answer asks by the same id, and so finds its
// entry.
func (o *handoff) close(verdict error) {
	e := Ending{How: Released}
	if o.next != nil {
		e.How, e.Answer = HandedOver, o.answer
	}
	if !repeatable(verdict) {
		e.Unanswered = o.hold.unanswered
	}
	o.hold.ended(e)
}

// ended reports to the Locker how the hold has ended.
func (s *Hold) ended(e Ending) {
	s.holds.remove(s.grant.ID)
	e.Grant = s.grant
	s.succession.Ended(e)
}

// release releases the hold and hands it over, and reports whether it did.
// The successor's time runs from the first attempt, which may be the one that
// was executed.
func (o *handoff) release(ctx context.Context, first engine.Reading) (done bool, err error) {
	if o.next == nil {
		return false, nil
	}
	got, err := o.hold.commands.Handoff(ctx, o.hold.last(), *o.next)
	return o.judge(ctx, got, err, first)
}

// writeAndRelease does the same with an update. A successor that inherits the
// hold's time inherits no short one.
func (o *handoff) writeAndRelease(ctx context.Context, first engine.Reading, u *engine.Update) (done bool, err error) {
	if o.next == nil {
		return false, nil
	}
	s := o.hold
	can, inherits := s.engine.Piggybacks(s.grant, u, *o.next)
	if inherits {
		first = s.since()
		can = can && s.left() > s.grant.TTL*9/10
	}
	if !can {
		return false, nil
	}
	got, err := s.commands.WriteAndHandOff(ctx, s.grant, u, *o.next)
	return o.judge(ctx, got, err, first)
}

// judge keeps the successor's answer, and reports whether the hold was released. An
// attempt that finds nothing, or is refused, says nothing about the successor,
// and the lock can still be released to nobody. An attempt that leaves
// something unreadable was executed: the successor asks what it means. An
// attempt of which nothing happened, for a reason that passes, is repeated.
func (o *handoff) judge(ctx context.Context, got engine.Answer, err error, first engine.Reading) (done bool, _ error) {
	switch {
	case got.Image == nil && engine.AsFailure(err).Refused():
		return false, nil
	case got.Image == nil:
		return false, err
	case err == nil:
		o.answer, o.answer.Sent = got, first
		if got.Outcome == engine.Granted {
			o.hold.emitEnds(ctx, doclock.HowHandedOver, nil)
		}
	}
	return true, nil
}
