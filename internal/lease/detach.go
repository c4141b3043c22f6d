package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
)

// Detach implements doclock.Lease. A caller who gives up has the token: the
// detach goes on, and a resume shows whether it was executed.
func (h *Handle) Detach(ctx context.Context) (token string, err error) {
	defer func() { err = engine.Raise(err) }()
	if err := h.ready(ctx); err != nil {
		return "", err
	}
	if h.hold.limit.ttl > 0 { // it never changes
		return "", fmt.Errorf("%w: Detach: %v: the lease has a HoldAtMost, and the entry of a token outlives its leases; "+
			"acquire without it what is to be detached", doclock.ErrInvalidArgument, h.hold)
	}
	if err := h.hold.lockGate(ctx, &h.writing); err != nil {
		return "", err
	}
	v, err := h.claimAll(ctx)
	if err == nil && v == nil {
		err = h.hold.ofSeveral("Detach")
	}
	if err != nil {
		h.writing.unlock()
		return "", err
	}
	k := h.hold.token()
	sent := func() {
		h.hold.mark(k.Key)
		h.hold.giveUp()
	}
	err = h.runSending(ctx, h.hold.sending(sent), func(ctx context.Context) error {
		defer h.writing.unlock()
		s := h.hold
		defer s.renewing.unlock()
		s.writing.lock()
		defer s.writing.unlock()
		err := s.detach(ctx, k)
		h.settleDetach(ctx, v, err)
		return err
	})
	err = h.conclude(ctx, v, err, h.settleDetach)
	if err != nil && !errors.Is(err, doclock.ErrLost) {
		h.mayRelease(v)
	}
	if err != nil && (!errors.Is(err, doclock.ErrOutcomeUnknown) || repeatable(err)) {
		return "", err
	}
	return k.Text(), err
}

// token is what a detach of the hold returns. A hold that was resumed keeps the
// key of its token.
func (s *Hold) token() engine.Token {
	k := engine.Token{Tag: s.grant.Tag, Key: s.grant.Key}
	if k.Key == uuid.Nil {
		k.Key = uuid.New()
	}
	return k
}

// detach sends the detach and judges its answer. A repeat that finds nothing reads
// the document: an earlier attempt may have left the entry to a user of the token,
// who has resumed it since, or has even released it. Nobody else knows a new key. Others
// know the key of a lease that was itself resumed. One of them may have taken the entry
// before that attempt, but such a resume writes `until`.
func (s *Hold) detach(ctx context.Context, k engine.Token) error {
	if err := s.declaredLoss(); err != nil {
		return err
	}
	var got engine.Answer
	unsure, err := s.settle(ctx, func(ctx context.Context) (err error) {
		got, err = s.commands.Detach(ctx, s.grant, k.Key)
		return err
	})
	switch {
	case err != nil && unsure == nil:
		return s.judged(s.failed("detach", err))
	case err != nil:
		return s.unknown("detach", unsure)
	case got.Outcome == engine.Detached:
		return nil
	case unsure == nil:
		return s.lose(got)
	}
	img, err := s.read(ctx)
	entry, there := keyed(img, k.Tag, k.Key)
	switch {
	case err != nil:
		return s.unknown("detach", oneline.Join(unsure, err))
	case there && (s.grant.Key == uuid.Nil || entry.Until.IsZero()):
		return nil
	default:
		return s.unknown("detach", unsure)
	}
}

// mark notes the key that the entry has, or may have, after a detach.
func (s *Hold) mark(key uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// last is the grant as the release names it: after a detach of unknown outcome
// the entry may have a key, and a lock that nobody used leaves no remainder.
func (s *Hold) last() engine.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.grant
	if s.key != uuid.Nil {
		g.Key = s.key
	}
	if s.unused {
		g.Until = time.Time{}
	}
	return g
}

// settleDetach publishes the verdict on a detach, which is the release's too. If
// the detach was refused or not sent, the entry stands as before. If its outcome
// is unknown, a release may end the entry, whether or not it has the key.
func (h *Handle) settleDetach(ctx context.Context, v *verdict, err error) {
	s := h.hold
	e := Ending{How: Detached}
	if errors.Is(err, doclock.ErrLost) {
		e.How = Released
	}
	if err == nil || e.How == Released {
		e.Unanswered = s.unanswered // whose clean-up spares entries with a key
	}
	defer s.ended(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !h.publish(ctx, v, doclock.HowDetached, err) {
		return
	}
	if repeatable(err) {
		s.key = uuid.Nil
		s.become(held)
		h.reopen(v) // here: a write that waits for the detach goes on as soon as it ends
		return
	}
	s.become(detached)
	if errors.Is(err, doclock.ErrOutcomeUnknown) {
		h.reopen(v)
	}
}

// mayRelease lets a release be sent after a detach whose caller has given up. It waits
// for the detach's end.
func (h *Handle) mayRelease(v *verdict) {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	h.reopen(v)
}

// reopen lets a release be claimed again. The hold is locked.
func (h *Handle) reopen(v *verdict) {
	if h.released == v {
		h.released = nil
	}
}
