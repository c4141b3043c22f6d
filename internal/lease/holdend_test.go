package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// After the end of the validity the first holder to leave releases for all, and
// the others have lost the lock.
func TestTheFirstToLeaveAfterTheEndReleases(t *testing.T) {
	for name, leave := range map[string]func(*Handle) error{
		"Release":          func(h *Handle) error { return h.Release(context.Background()) },
		"UpdateAndRelease": func(h *Handle) error { return h.UpdateAndRelease(context.Background(), increment) },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				holders := r.share(3)
				time.Sleep(ttl)
				r.wantErr("the first", leave(holders[0]), nil)
				r.server.forget()
				r.wantErr("the second", leave(holders[1]), ErrLost)
				r.wantErr("the last one's Update", holders[2].Update(context.Background(), increment), ErrLost)
				r.wantErr("the last one's Delete", holders[2].Delete(context.Background()), ErrLost)
				r.wantErr("the last", leave(holders[2]), ErrLost)
				r.wantSent()
			})
		})
	}
}

// Nobody joins a hold that is being released, for as long as that takes.
func TestAHoldThatIsBeingReleasedIsNotJoined(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.share(1)[0]
		r.delay("renew", time.Second)
		go func() { _ = h.Renew(context.Background()) }()
		synctest.Wait()
		go func() { _ = h.Release(context.Background()) }() // which waits for the renewal
		synctest.Wait()
		r.wantErr("Err", h.Err(), ErrReleased)
		if r.Join(h.ID()) != nil {
			r.Error("joined")
		}
		r.wantSent("renew")
	})
}

// The server refuses the release: the entry stands, and a later call tries
// again. Once it has succeeded nothing is sent any more, and the attempts of the
// acquire are left to the clean-up.
func TestARefusedReleaseIsTriedAgain(t *testing.T) {
	for name, holders := range map[string]int{"exclusive": 0, "shared": 1, "shared by two": 2} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.doubted(2, "write")
				if holders > 0 {
					all := r.share(holders)
					h = all[0]
					for _, other := range all[1:] {
						r.wantErr("the other", other.Release(context.Background()), nil)
					}
				}
				refused := &engine.Failure{Nothing: true}
				r.server.fault = func(context.Context, call) error { return refused }
				r.wantErr("refused", h.Release(context.Background()), refused)
				r.server.fault = nil
				r.wantUnanswered()
				r.wantErr("again", h.Release(context.Background()), nil)
				r.wantErr("once more", h.Release(context.Background()), nil)
				r.wantSent("release", "release")
				r.wantUnanswered(h.ID())
			})
		})
	}
}
