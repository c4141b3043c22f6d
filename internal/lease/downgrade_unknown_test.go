package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// If no attempt is answered, the old entry is released first, and then the new id
// is removed. Rule 24: in the other order the new id is removed before a late
// attempt makes it.
func TestRule24CleanUpReleasesTheOldIDFirst(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.server.fault = func(_ context.Context, c call) error {
			if c.name == "downgrade" {
				return errReplyLost
			}
			if len(r.unanswered) != 0 {
				r.Error("the new id is removed before the release")
			}
			return nil
		}
		begun := time.Now()
		r.downgrade(h, ErrOutcomeUnknown)
		if took := time.Since(begun); took > 2*ttl {
			r.Errorf("it took %v", took)
		}
		if len(r.unanswered) != 1 || r.unanswered[0].Tag != "read" || r.unanswered[0].ID == h.ID() {
			r.Errorf("the clean-up is of %v", r.unanswered)
		}
		sent := r.server.sent()
		if last := sent[len(sent)-1]; last != "release" || len(r.server.entries) != 0 {
			r.Errorf("sent %v, there are %v", sent, r.server.entries)
		}
		r.server.forget()
		r.wantErr("Update", h.Update(context.Background(), increment), ErrReleased)
		r.wantErr("Release", h.Release(context.Background()), ErrOutcomeUnknown)
		r.wantSent()
	})
}

// If the server refuses that release, the holder may release the entry. Until then
// nobody knows whether others were let in.
func TestDowngradeOfUnknownOutcomeWhoseReleaseIsRefused(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		first := true
		r.server.fault = func(context.Context, call) error {
			if first {
				first = false
				return errReplyLost
			}
			return &engine.Failure{Nothing: true}
		}
		r.downgrade(h, ErrOutcomeUnknown)
		if h.hold.left() <= 0 {
			r.Fatal("the lease's time is up")
		}
		r.wantErr("Release", h.Release(context.Background()), ErrOutcomeUnknown)
		if len(r.unanswered) != 1 {
			r.Errorf("the clean-up is of %v", r.unanswered)
		}
		if h.Err() == nil {
			r.Error("it is valid")
		}
		r.server.fault = nil
		r.server.forget()
		r.wantErr("Release", h.Release(context.Background()), nil)
		r.wantSent("release")
	})
}

// A downgrade that the server refuses leaves the lease as it is.
func TestDowngradeNotExecuted(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.server.fault = func(context.Context, call) error { return &engine.Failure{Nothing: true} }
		_, err := h.Downgrade(context.Background(), "read")
		if err == nil || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrLost) || h.Err() != nil || h.Remaining() == 0 {
			r.Errorf("%v, %v, %v left", err, h.Err(), h.Remaining())
		}
		r.server.fault = nil
		r.downgrade(h, nil)
	})
}

// If the caller gives up, a lease that is granted after that is released, and others
// are let in: the old lease is lost. If the downgrade is refused, the lease goes on.
// A Release waits for it.
func TestDowngradeGivenUp(t *testing.T) {
	for name, want := range map[string]error{"granted": ErrLost, "refused": nil} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.take(1, "write")
				r.refuses(name == "refused")
				r.delay("downgrade", time.Second)
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				_, err := h.Downgrade(ctx, "read")
				r.wantErr("Downgrade", err, ErrOutcomeUnknown)
				r.wantErr("Downgrade", err, context.DeadlineExceeded)
				r.wantErr("Err", h.Err(), ErrOutcomeUnknown)
				r.wantErr("Release", h.Release(context.Background()), want)
				time.Sleep(time.Second)
				r.wantErr("Release", h.Release(context.Background()), want)
				r.wantSent("downgrade", "release")
				if len(r.server.entries) != 0 {
					r.Errorf("there are %v", r.server.entries)
				}
			})
		})
	}
}

// A caller who gives up before the downgrade was sent has downgraded nothing.
func TestDowngradeRevoked(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.server.fault = func(context.Context, call) error {
			return &engine.Failure{Nothing: true, Passes: true}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := h.Downgrade(ctx, "read")
		r.wantErr("Downgrade", err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		r.wantErr("Err", h.Err(), nil)
		if len(r.unanswered) != 0 {
			r.Errorf("the clean-up is of %v", r.unanswered)
		}
	})
}
