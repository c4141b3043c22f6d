package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// detach detaches, and reads the token.
func (r *rig) detach(h *Handle, want error) uuid.UUID {
	r.Helper()
	text, err := h.Detach(context.Background())
	r.wantErr("Detach", err, want)
	if (text != "") != (want == nil || errors.Is(want, ErrOutcomeUnknown)) {
		r.Errorf("the token %q beside %v", text, err)
	}
	if text == "" {
		return uuid.Nil
	}
	k, err := r.engine.ParseToken(text)
	if err != nil {
		r.Fatal(err)
	}
	return k.Key
}

// wantEnded checks that a handle has ended: it sends nothing more.
func (r *rig) wantEnded(h *Handle, kept context.Context) {
	r.Helper()
	<-h.Done()
	<-kept.Done()
	r.wantErr("KeepAlive", context.Cause(kept), ErrReleased)
	r.wantErr("Err", h.Err(), ErrReleased)
	if r.Valid(h.ID()) || h.Remaining() != 0 || len(h.Guard()) != 1 {
		r.Errorf("valid %v, %v left, guard %v", r.Valid(h.ID()), h.Remaining(), h.Guard())
	}
	ctx := context.Background()
	_, err := h.Downgrade(ctx, "read")
	r.wantErr("Downgrade", err, ErrReleased)
	_, err = h.Detach(ctx)
	r.wantErr("Detach", err, ErrReleased)
	r.wantErr("Update", h.Update(ctx, increment), ErrReleased)
	r.wantErr("UpdateAndRelease", h.UpdateAndRelease(ctx, increment), ErrReleased)
	r.wantErr("Delete", h.Delete(ctx), ErrReleased)
	r.wantErr("Renew", h.Renew(ctx), ErrReleased)
	r.wantErr("Release", h.Release(ctx), nil)
	r.wantErr("Release again", h.Release(ctx), nil)
}

// A handle that detached has ended: it sends nothing more, and a Release after it
// leaves the entry where it is.
func TestDetachEndsTheHandle(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		kept := h.KeepAlive(context.Background())
		key := r.detach(h, nil)
		if e := r.server.entries[h.ID()]; e == nil || e.key != key {
			r.Errorf("the entry is %+v, the token's key %v", e, key)
		}
		r.wantEnded(h, kept)
		r.wantSent("detach")
	})
}

// Rule 23. Detach ends the validity at its send. Without it a user of the token
// releases the lock, another client is let in, and the lease still counts as
// valid.
func TestRule23DetachEndsTheValidityAtItsSend(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.server.fault = func(context.Context, call) error {
			r.wantErr("Err at the send", h.Err(), ErrReleased)
			if r.Valid(h.ID()) {
				r.Error("valid at the send")
			}
			return nil
		}
		r.detach(h, nil)
	})
}

// parting are the commands that give an entry up, each with the name that it is sent by.
var parting = map[string]func(*rig, *Handle, error){
	"detach":    func(r *rig, h *Handle, want error) { r.detach(h, want) },
	"downgrade": func(r *rig, h *Handle, want error) { r.downgrade(h, want) },
}

// Rules 23 and 24. An entry that other local holders have is neither detached nor
// downgraded. Without it a user of the token releases the entry of the others, or their
// tag is no longer held.
func TestRule23And24SharedEntriesAreKept(t *testing.T) {
	for name, part := range parting {
		virtual(t, func(r *rig) {
			all := r.share(2)
			part(r, all[0], ErrInvalidArgument)
			r.wantErr("Err", all[0].Err(), nil)
			r.wantErr("Release", all[1].Release(context.Background()), nil)
			part(r, all[0], nil)
			r.wantSent(name)
		})
	}
}

// Rules 23 and 24. From the send on no local holder joins.
func TestRule23And24NobodyJoins(t *testing.T) {
	for _, part := range parting {
		virtual(t, func(r *rig) {
			h := r.take(1, "read")
			joined := func() bool { return r.Join(h.ID()) != nil || h.hold.join() != nil }
			r.server.fault = func(context.Context, call) error {
				if joined() {
					r.Error("joined at the send")
				}
				return nil
			}
			part(r, h, nil)
			if joined() {
				r.Error("joined an entry that was given up")
			}
		})
	}
}

// A detach that the server refuses leaves the entry, also for a write that has waited
// behind it, and a Release ends it.
func TestDetachRefused(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		refused := true
		r.server.fault = func(_ context.Context, c call) error {
			if refused && c.name == "detach" {
				return &engine.Failure{Nothing: true}
			}
			return nil
		}
		detached, written := make(chan error, 1), make(chan error, 1)
		h.writing.lock() // a write is under way
		go func() {
			_, err := h.Detach(context.Background())
			detached <- err
		}()
		synctest.Wait()
		go func() { written <- h.Update(context.Background(), increment) }()
		synctest.Wait()
		h.writing.unlock()
		if err := <-detached; err == nil || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrLost) {
			r.Errorf("Detach: %v", err)
		}
		r.wantErr("Update", <-written, nil)
		refused = false
		r.detach(h, nil)
		r.wantErr("Release", h.Release(context.Background()), nil)
		r.wantSent("detach", "write", "detach")
	})
}
