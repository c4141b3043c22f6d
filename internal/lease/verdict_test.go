package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// endings are the methods that end a lease.
var endings = map[string]func(*Handle) error{
	"Release":          func(h *Handle) error { return h.Release(context.Background()) },
	"UpdateAndRelease": func(h *Handle) error { return h.UpdateAndRelease(context.Background(), increment) },
	"Delete":           func(h *Handle) error { return h.Delete(context.Background()) },
	"Detach": func(h *Handle) error {
		token, err := h.Detach(context.Background())
		if err != nil && token != "" {
			return errors.New("a token of a detach that was not executed")
		}
		return err
	},
}

// The server refuses the command that ends a lease, or no server can be reached.
// While the lease's time lasts nobody was let in. After that nobody knows, although
// the command was certainly not executed. In both cases a release may follow.
func TestReleaseThatIsNotExecuted(t *testing.T) {
	for name, end := range endings {
		for how, failure := range map[string]*engine.Failure{
			"refused":  {Nothing: true},
			"not sent": {Nothing: true, Passes: true},
		} {
			for when, late := range map[string]bool{"in time": false, "late": true} {
				t.Run(name+" is "+how+" "+when, func(t *testing.T) {
					virtual(t, func(r *rig) {
						h := r.take(1, "write")
						if late {
							time.Sleep(ttl)
						}
						r.server.fault = func(context.Context, call) error { return failure }
						err := end(h)
						if errors.Is(err, ErrLost) || errors.Is(err, ErrOutcomeUnknown) != late || !errors.As(err, new(*engine.Failure)) {
							t.Errorf("%v", err)
						}
						r.server.fault = nil
						r.server.forget()
						r.wantErr("Release", h.Release(context.Background()), nil)
						r.wantSent("release")
					}, func(cfg *engine.Config) { cfg.RetryLimit = time.Second })
				})
			}
		}
	}
}

// The time runs out between the release's failure and the caller's look at it.
func TestAVerdictIsOfTheMoment(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.server.fault = func(context.Context, call) error { return &engine.Failure{Nothing: true} }
		err := h.Release(context.Background())
		if err == nil || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("Release: %v", err)
		}
		time.Sleep(ttl)
		r.wantErr("Judged", h.Judged(err), ErrOutcomeUnknown)
		r.wantErr("Judged again", h.Judged(h.Judged(err)), ErrOutcomeUnknown)
		r.wantErr("Judged nil", h.Judged(nil), nil)
	})
}

// The loss that has ended a caller's context is another lease's: it says nothing of
// a lease whose command waits for its turn.
func TestAnotherLeasesLossIsNoVerdict(t *testing.T) {
	for name, command := range map[string]func(context.Context, *Handle) error{
		"Update":           func(ctx context.Context, h *Handle) error { return h.Update(ctx, increment) },
		"UpdateAndRelease": func(ctx context.Context, h *Handle) error { return h.UpdateAndRelease(ctx, increment) },
		"Renew":            func(ctx context.Context, h *Handle) error { return h.Renew(ctx) },
		"Delete":           func(ctx context.Context, h *Handle) error { return h.Delete(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				outer, inner := r.take(1, "write"), r.take(2, "write")
				ctx := r.keep(outer)[0]
				r.server.remove(outer)
				r.wantErr("Renew", outer.Renew(context.Background()), ErrLost)
				err := command(ctx, inner)
				if !errors.Is(err, context.Canceled) || errors.Is(err, ErrLost) || errors.Is(err, ErrOutcomeUnknown) {
					t.Errorf("%s: %v", name, err)
				}
				r.wantErr("Release", inner.Release(context.Background()), nil)
			})
		})
	}
}
