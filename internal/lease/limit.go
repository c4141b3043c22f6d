package lease

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// This file is about holds that must end (HoldAtMost). The limit counts from the
// send of the grant, as the validity does, by the same two clocks, and nothing
// extends it. A renewal extends the entry by what is left of it, so that the
// server lets others in soon after.

// leftAt is the time that remains of the validity, and of the limit. The hold is
// locked.
func (s *Hold) leftAt(now engine.Reading) time.Duration {
	left := s.validity.left(now)
	if s.limited() {
		left = min(left, s.limit.left(now))
	}
	return left
}

// limited says that the hold has a limit. The hold is locked.
func (s *Hold) limited() bool { return s.limit.ttl > 0 }

// full says that no renewal can extend the validity any more: it lasts until the
// limit. The hold is locked.
func (s *Hold) full(now engine.Reading) bool {
	return s.limited() && s.validity.left(now) >= s.limit.left(now)
}

// renewal is the grant as a renewal extends it: by a TTL, or by what is left of
// the limit.
func (s *Hold) renewal() engine.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.grant
	if s.limited() {
		g.TTL = min(g.TTL, s.most())
	}
	return g
}

// most is what is left of the limit: no less, in whole milliseconds, the server's.
// The hold is locked.
func (s *Hold) most() time.Duration {
	left := s.limit.left(s.engine.Clocks()) + resolution
	return max(left, 0).Truncate(time.Millisecond) + time.Millisecond
}

// renewed takes in that the server has executed a renewal.
func (s *Hold) renewed(g engine.Grant, sent engine.Reading) {
	s.extend(lasting(g.TTL, sent, s.grant.TTL))
}

// within is the request of a downgrade, whose entry has no more of the limit than
// this hold.
func (s *Hold) within(to engine.Request) engine.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limited() {
		to.Terms.Most = s.most()
	}
	return to
}

// inherit passes the limit on to the hold of a downgrade, and the validity that
// its entry has. It comes before anybody has that hold.
func (s *Hold) inherit(limit, rest validity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit, s.validity = limit, rest
	_ = s.check()
}
