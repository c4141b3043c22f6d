package lease

import (
	"context"
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
