package lease

import (
	"context"

	"github.com/doclock/doclock/internal/engine"
)

// succession is who gets the lock when a lease gives it away: a waiter of this
// process, or whoever asks first.
type succession struct {
	lease *Handle
	next  Successor // or nil
	over  bool      // it has its answer
}

// succession claims the successor, if there is one. The caller must end it.
func (l *Handle) succession() *succession {
	return &succession{lease: l, next: l.leases.line.Next(l.grant)}
}

// end tells whoever waits in this process that the lock was given away, or
// may have been: the next one asks the server. A successor that a command of
// unknown outcome was for asks by the same id, and so finds its entry.
func (s *succession) end() {
	switch {
	case s.over:
	case s.next != nil:
		s.next.Answer(engine.Answer{Outcome: engine.Lost})
	default:
		s.lease.leases.line.Released(s.lease.grant)
	}
}

// handOff releases the lease and hands it over, and reports whether it did.
// The successor's time runs from the first attempt, for it may be that one that was
// executed.
func (s *succession) handOff(ctx context.Context, first engine.Reading) (done bool, err error) {
	if s.next == nil {
		return false, nil
	}
	got, err := s.lease.engine.Handoff(ctx, s.lease.grant, s.next.Request())
	return s.answer(got, err, first)
}

// writeAndHandOff does the same with an update. A successor that inherits the
// lease's time is not given a short one.
func (s *succession) writeAndHandOff(ctx context.Context, first engine.Reading, u *engine.Update) (done bool, err error) {
	if s.next == nil {
		return false, nil
	}
	l := s.lease
	can, inherits := l.engine.Piggybacks(l.grant, u, s.next.Request())
	if inherits {
		first = l.since()
		can = can && l.left() > l.engine.Lease(l.grant.Tag)*9/10
	}
	if !can {
		return false, nil
	}
	got, err := l.engine.WriteAndHandOff(ctx, l.grant, u, s.next.Request())
	return s.answer(got, err, first)
}

// answer tells the successor, and reports whether the lease was released. An
// attempt that finds nothing, or is refused, says nothing about the successor,
// and the lock can still be released to nobody. One that leaves something
// unreadable was executed: the successor asks what it means.
func (s *succession) answer(got engine.Answer, err error, first engine.Reading) (done bool, _ error) {
	switch {
	case got.Image == nil && engine.AsFailure(err).Certain:
		return false, nil
	case got.Image == nil:
		return false, err
	case err == nil:
		s.over, got.Sent = true, first
		s.next.Answer(got)
	}
	return true, nil
}
