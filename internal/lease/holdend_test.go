package lease

import (
	"context"
	"errors"
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

// A caller gives up on a last write. If it was sent, its outcome is unknown, of a
// shared entry too. If it waited for a renewal, nothing is sent, and the lease
// stands.
func TestACallerGivesUpOnALastWrite(t *testing.T) {
	for name, c := range map[string]struct {
		tag  string
		last func(*Handle, context.Context) error
	}{
		"UpdateAndRelease":         {"write", func(h *Handle, ctx context.Context) error { return h.UpdateAndRelease(ctx, increment) }},
		"UpdateAndRelease, shared": {"read", func(h *Handle, ctx context.Context) error { return h.UpdateAndRelease(ctx, increment) }},
		"Delete":                   {"write", (*Handle).Delete},
		"Delete, shared":           {"read", (*Handle).Delete},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				r.server.lose = func(call) error {
					time.Sleep(time.Second)
					return nil
				}
				h := r.take(1, c.tag)
				ctx, cancel := context.WithTimeout(context.Background(), aLittle)
				defer cancel()
				err := c.last(h, ctx)
				r.wantErr("sent", err, context.DeadlineExceeded)
				r.wantErr("sent", err, ErrOutcomeUnknown)
				r.wantErr("Release", h.Release(context.Background()), nil)

				h = r.take(2, c.tag)
				go func() { _ = h.Renew(context.Background()) }()
				synctest.Wait()
				ctx, cancel = context.WithTimeout(context.Background(), aLittle)
				defer cancel()
				err = c.last(h, ctx)
				r.wantErr("not sent", err, context.DeadlineExceeded)
				if errors.Is(err, ErrOutcomeUnknown) || h.Err() != nil {
					r.Errorf("got %v, and the lease is over: %v", err, h.Err())
				}
				r.wantErr("Release", h.Release(context.Background()), nil)
			})
		})
	}
}

// The server's verdict is remembered: nothing is written any more, and the lock
// was lost, whatever the answer to the release.
func TestALossIsRememberedByTheHold(t *testing.T) {
	virtual(t, func(r *rig) {
		holders := r.share(2)
		entry := r.server.entries[holders[0].ID()]
		r.server.remove(holders[0])
		r.wantErr("Renew", holders[0].Renew(context.Background()), ErrLost)
		r.wantErr("the other's Err", holders[1].Err(), ErrLost)
		r.server.entries[holders[0].ID()] = entry // as a late duplicate of the acquire does
		r.server.forget()
		r.wantErr("Update", holders[1].Update(context.Background(), increment), ErrLost)
		r.wantSent()
		r.wantErr("Release", holders[1].Release(context.Background()), ErrLost)
		r.wantErr("the other's Release", holders[0].Release(context.Background()), ErrLost)
		r.wantSent("release")

		h := r.take(2, "write")
		entry = r.server.entries[h.ID()]
		r.server.remove(h)
		r.wantErr("Renew", h.Renew(context.Background()), ErrLost)
		r.server.entries[h.ID()] = entry
		r.server.forget()
		r.wantErr("UpdateAndRelease", h.UpdateAndRelease(context.Background(), increment), ErrLost)
		r.wantSent("release")
	})
}
