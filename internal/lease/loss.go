package lease

import (
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
)

// This file has why a hold was lost.

// Loss is what is known of a lease that was lost. The Locker makes its error.
type Loss struct {
	Grant  *engine.Grant
	Reason doclock.LossReason
	Since  time.Time
	Image  *engine.Image // that shows who holds the lock now, or nil
}

// runOut is the loss of a hold whose time has passed. The hold is locked.
func (s *Hold) runOut(now engine.Reading) error {
	l := &Loss{Grant: &s.grant, Reason: doclock.LossNotRenewed, Since: now.Wall.Add(s.leftAt(now))}
	switch {
	case s.full(now):
		l.Reason = doclock.LossHeldAtMost
	case s.renewing.isLocked() || slices.ContainsFunc(s.holders, func(h *Handle) bool { return len(h.followers) > 0 }):
		l.Reason = doclock.LossExpired
	}
	s.ranOut = l
	return s.succession.Lost(*l)
}

// Missing is the loss that an answer shows.
func Missing(g *engine.Grant, got engine.Answer, now time.Time) Loss {
	l := Loss{Grant: g, Reason: doclock.LossEntryRemoved, Since: now, Image: got.Image}
	if got.Gone {
		l.Reason = doclock.LossDocumentDeleted
	}
	return l
}

// lose ends the hold by the server's verdict, which it remembers. The reason is the
// first one: once the hold's time was up, others could come.
func (s *Hold) lose(got engine.Answer) error {
	s.mu.Lock()
	known, ranOut := s.loss, s.ranOut
	s.mu.Unlock()
	if known != nil {
		return known
	}
	l := Missing(&s.grant, got, s.engine.Clocks().Wall)
	if ranOut != nil {
		l.Reason, l.Since = ranOut.Reason, ranOut.Since
	}
	loss := s.succession.Lost(l) // it asks whether holders are leases of this process, as this one is
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loss == nil {
		s.loss = loss
		s.finish(loss)
	}
	return s.loss
}

// declaredLoss is the loss that the server has declared, or nil.
func (s *Hold) declaredLoss() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loss
}
