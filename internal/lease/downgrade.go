package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// Downgrade implements doclock.Lease.
func (h *Handle) Downgrade(ctx context.Context, tag string) (doclock.Lease, error) {
	held, err := h.convert(ctx, tag)
	return Give(held, engine.Raise(err))
}

// convert is Downgrade. If its caller gives up, a lease that was granted is released.
func (h *Handle) convert(ctx context.Context, tag string) (*Handle, error) {
	if err := h.ready(ctx); err != nil {
		return nil, err
	}
	s := h.hold
	rules := s.engine.Rules()
	if _, known := rules[tag]; !known {
		return nil, fmt.Errorf("%w: Downgrade: unknown tag %q (tags: %s)", doclock.ErrInvalidArgument, tag, strings.Join(rules.Tags(), ", "))
	}
	if err := s.lockGate(ctx, &h.writing); err != nil {
		return nil, err
	}
	if err := s.lockGate(ctx, &s.renewing); err != nil {
		h.writing.unlock()
		return nil, err
	}
	if err := h.suspend(); err != nil {
		s.renewing.unlock()
		h.writing.unlock()
		return nil, err
	}
	to := s.below(tag)
	got, err := runFor(ctx, h, s.sending(nil), func(ctx context.Context) downgraded {
		defer s.renewing.unlock()
		s.writing.lock()
		defer s.writing.unlock()
		return s.downgrade(ctx, to)
	}, func(got downgraded) {
		defer h.writing.unlock()
		if got.lease != nil {
			s.discard(ctx)
			if err := got.lease.Unlock(context.Background()); err != nil && !errors.Is(err, doclock.ErrLost) {
				s.ended(Ending{How: Abandoned, Unanswered: oneAttempt(to)})
			}
		}
	})
	if revoked(err) {
		s.resume()
	}
	h.emitUnknown(ctx, cmp.Or(err, got.err))
	if err != nil {
		return nil, err
	}
	h.writing.unlock() // a release learns whether the caller has the new lease
	if got.lease != nil {
		s.emitEnds(ctx, doclock.HowDowngraded, nil)
		got.lease.succeed(ctx, h, got.sent)
	}
	return got.lease, got.err
}

// downgraded is the result of a downgrade.
type downgraded struct {
	lease *Handle
	sent  engine.Reading // if there is a lease
	err   error
}

// suspend begins a downgrade, for the only holder: the hold is not valid until
// its end, and nobody joins.
func (h *Handle) suspend() error {
	s := h.hold
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !h.isInLocked():
		return s.released()
	case s.phase != held: // by another holder, after the end of the validity
		return s.check()
	case len(s.holders) > 1:
		return s.ofSeveral("Downgrade")
	}
	if now := s.engine.Clocks(); s.limited() && s.limit.left(now) <= 0 {
		return s.check() // nothing may go on
	}
	s.become(suspended)
	return nil
}

// below is the request of a downgrade. The new entry has the TTL that the
// acquire has chosen, or else its own tag's.
func (s *Hold) below(tag string) engine.Request {
	r := engine.Request{Tag: tag, ID: uuid.New()}
	if s.grant.TTL != s.engine.LeaseBy(s.grant.Tag, engine.Terms{Most: s.grant.Most}) {
		r.Terms.TTL = s.grant.TTL
	}
	return r
}

// downgrade sends the downgrade and judges its answer. It takes the number of
// the next write.
func (s *Hold) downgrade(ctx context.Context, to engine.Request) downgraded {
	if err := s.declaredLoss(); err != nil {
		s.resume()
		return downgraded{err: err}
	}
	s.writes++
	k := s.writes
	var got engine.Answer
	var asked engine.Request
	unsure, err := s.settle(ctx, func(ctx context.Context) (err error) {
		asked = s.within(to)
		got, err = s.commands.Downgrade(ctx, s.grant, k, asked)
		return err
	})
	switch {
	case err != nil && unsure == nil:
		s.resume()
		return downgraded{err: s.failed("downgrade", err)}
	case err != nil:
		err = s.unknown("downgrade", unsure)
		s.withdraw(ctx, to, err)
		return downgraded{err: err}
	case got.Outcome == engine.Granted:
		return downgraded{lease: s.giveWay(got, to, s.engine.LeaseBy(to.Tag, asked.Terms)), sent: got.Sent}
	case got.Outcome == engine.Conflict:
		s.resume()
		return downgraded{err: s.succession.Refused(got.Image, s.grant, to.Tag)}
	default: // neither entry is there, and no attempt can make one
		err := s.lose(got)
		s.resume()
		return downgraded{err: err}
	}
}

// resume ends the suspension, unless a caller has who has revoked the downgrade. The hold
// goes on with the validity that it had.
func (s *Hold) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == suspended {
		s.become(held)
	}
}

// giveWay ends the hold, whose entry has given way to the request's, and makes
// the new one's, which lasts for span. The waiters are woken as after a release.
func (s *Hold) giveWay(got engine.Answer, to engine.Request, span time.Duration) *Handle {
	s.replace(nil)
	held := s.holds.New(s.engine.Grant(got.Image, to), got.Sent, false)
	held.hold.inherit(s.limit, lasting(span, got.Sent, held.hold.grant.TTL))
	s.ended(Ending{How: Released, Unanswered: s.unanswered})
	return held
}

// discard says of a hold that has given way that no caller has the new lease. Others
// have been let in beside it, or after its release.
func (s *Hold) discard(ctx context.Context) {
	err := s.lose(engine.Answer{})
	s.emitEnds(ctx, "", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdict = err
}

// withdraw ends a hold whose downgrade has no answer: nobody knows which entry
// is there. It releases the old entry first: without that one no late attempt makes the
// new one. If its release is refused or not sent, the holder may release it.
func (s *Hold) withdraw(ctx context.Context, to engine.Request, err error) {
	released := s.release(attempt.Detached(ctx), &handoff{hold: s})
	s.emitEnds(ctx, doclock.HowDowngraded, err)
	unanswered := oneAttempt(to)
	if repeatable(released) {
		s.resume()
		s.doubt(err)
	} else {
		s.replace(err)
		unanswered = append(unanswered, s.unanswered...)
	}
	s.ended(Ending{How: Released, Unanswered: unanswered})
}

// doubt notes that the hold may be replaced: while nobody can release it, nobody knows
// whether others were let in beside the new entry.
func (s *Hold) doubt(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdict = err
}

// doubted says that the hold may be replaced.
func (s *Hold) doubted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verdict != nil
}

// oneAttempt is a downgrade whose entry may stand, or may be made yet: one at most,
// whatever the number of attempts, since the lease's own entry is released.
func oneAttempt(to engine.Request) []Unanswered {
	return []Unanswered{{Request: to, Attempts: 1, Last: time.Now()}}
}

// replace ends the hold after a downgrade that was not refused. A release
// returns released, and sends nothing.
func (s *Hold) replace(released error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(s.released())
	s.become(replaced)
	s.verdict = released
}
