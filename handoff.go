package doclock

import (
	"context"

	"github.com/doclock/doclock/internal/engine"
)

// succession is who gets the lock when a lease gives it away: a waiter of this
// process, or whoever asks first.
type succession struct {
	lease *Lease
	heir  *engine.Heir // until it has its answer
	over  bool
}

// succession claims the heir, if there is one. The caller must end it.
func (l *Lease) succession() *succession {
	return &succession{lease: l, heir: l.leases.line.Next(l.grant)}
}

// end tells whoever waits in this process that the lock was given away, or
// may have been: the next one asks the server. An heir that a command of
// unknown outcome was for asks by the same id, and so finds its entry.
func (s *succession) end() {
	switch {
	case s.over:
	case s.heir != nil:
		s.heir.Answer(engine.Lost, nil, engine.Reading{})
	default:
		s.lease.leases.line.Freed(s.lease.grant)
	}
}

// handOff releases the lease and hands it over, and reports whether it did.
// The heir's time runs from the first attempt, for it may be that one that was
// executed.
func (s *succession) handOff(ctx context.Context, first engine.Reading) (done bool, err error) {
	if s.heir == nil {
		return false, nil
	}
	outcome, img, err := s.lease.engine.Handoff(ctx, s.lease.grant, s.heir)
	return s.answer(outcome, img, err, first)
}

// writeAndHandOff does the same with an update. An heir that inherits the
// lease's time is not given a short one.
func (s *succession) writeAndHandOff(ctx context.Context, first engine.Reading, u *engine.Update) (done bool, err error) {
	if s.heir == nil {
		return false, nil
	}
	l := s.lease
	rides, inherits := l.engine.Rides(l.grant, u, s.heir)
	if inherits {
		first = l.since()
		rides = rides && l.left() > l.engine.Lease(l.grant.Tag)*9/10
	}
	if !rides {
		return false, nil
	}
	outcome, img, err := l.engine.WriteAndHandOff(ctx, l.grant, u, s.heir)
	return s.answer(outcome, img, err, first)
}

// answer tells the heir, and reports whether the lease was given away. An
// attempt that finds nothing, or is refused, says nothing about the heir, and
// the lock can still be given back plainly. One that leaves something
// unreadable was executed: the heir asks what it means.
func (s *succession) answer(outcome engine.Outcome, img *engine.Image, err error, sent engine.Reading) (done bool, _ error) {
	switch {
	case img == nil && engine.AsFailure(err).Certain:
		return false, nil
	case img == nil:
		return false, err
	case err == nil:
		s.over = true
		s.heir.Answer(outcome, img, sent)
	}
	return true, nil
}
