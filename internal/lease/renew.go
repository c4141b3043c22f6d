package lease

import (
	"context"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
)

// Renew implements doclock.Lease.
func (h *Handle) Renew(ctx context.Context) error {
	if err := h.ready(ctx); err != nil {
		return err
	}
	s := h.hold
	if err := s.lockGate(ctx, &s.renewing); err != nil {
		return err
	}
	err := h.run(ctx, func(ctx context.Context) error {
		defer s.renewing.unlock()
		return s.renew(ctx)
	})
	h.emitUnknown(ctx, err)
	return engine.Raise(err)
}

// renew renews with one command, repeated while the hold is valid.
func (s *Hold) renew(ctx context.Context) error { return s.renewWith(ctx, s.sendRenewal) }

func (s *Hold) sendRenewal(ctx context.Context, g engine.Grant) (engine.Answer, error) {
	got, err := s.commands.Renew(ctx, g)
	s.emitRenewal(got.Outcome, err)
	return got, err
}

// renewWith renews with a command that finds the hold's own entry or none.
func (s *Hold) renewWith(ctx context.Context, send func(context.Context, engine.Grant) (engine.Answer, error)) error {
	if err := s.err(); err != nil {
		return err
	}
	left := s.remaining()
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	bounds := s.engine.Attempt(s.grant.TTL)
	bounds.Pause = left / 8 // no lease is lost by waiting
	var got engine.Answer
	var g engine.Grant
	_, err := attempt.Settle(ctx, bounds, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, s.remaining())
		defer cancel()
		g = s.renewal()
		got, err = send(ctx, g)
		return err
	})
	if err != nil {
		if over := s.err(); over != nil {
			return oneline.Join(over, err)
		}
		return s.failed("renew", err)
	}
	if got.Outcome == engine.Lost {
		return s.lose(got)
	}
	s.renewed(g, got.Sent)
	return s.err()
}
