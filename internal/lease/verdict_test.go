package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
)

// The time runs out between the release's failure and the caller's look at it.
func TestAVerdictIsOfTheMoment(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.server.fault = func(context.Context, call) error { return &engine.Failure{Nothing: true} }
		err := h.Release(context.Background())
		if err == nil || errors.Is(err, doclock.ErrOutcomeUnknown) {
			t.Errorf("Release: %v", err)
		}
		time.Sleep(ttl)
		r.wantErr("Judged", h.Judge(err), doclock.ErrOutcomeUnknown)
		r.wantErr("Judged again", h.Judge(h.Judge(err)), doclock.ErrOutcomeUnknown)
		r.wantErr("Judged nil", h.Judge(nil), nil)
	})
}

// The loss that has ended a caller's context is another lease's: it says nothing of
// a lease whose command waits for its turn.
func TestAnotherLeasesLossIsNoVerdict(t *testing.T) {
	for name, command := range map[string]func(context.Context, *Lease) error{
		"Update":           func(ctx context.Context, h *Lease) error { return h.Update(ctx, increment) },
		"UpdateAndRelease": func(ctx context.Context, h *Lease) error { return h.UpdateAndRelease(ctx, increment) },
		"Renew":            func(ctx context.Context, h *Lease) error { return h.Renew(ctx) },
		"Delete":           func(ctx context.Context, h *Lease) error { return h.Delete(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				outer, inner := r.take(1, "write"), r.take(2, "write")
				ctx := r.keep(outer)[0]
				r.remove(outer)
				r.wantErr("Renew", outer.Renew(context.Background()), doclock.ErrLost)
				err := command(ctx, inner)
				if !errors.Is(err, context.Canceled) || errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrOutcomeUnknown) {
					t.Errorf("%s: %v", name, err)
				}
				r.wantErr("Release", inner.Release(context.Background()), nil)
			})
		})
	}
}
