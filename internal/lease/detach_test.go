package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
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
		<-h.Done()
		<-kept.Done()
		r.wantErr("KeepAlive", context.Cause(kept), ErrReleased)
		r.wantErr("Err", h.Err(), ErrReleased)
		if r.Valid(h.ID()) || h.Remaining() != 0 || len(h.Guard()) != 1 {
			r.Errorf("valid %v, %v left, guard %v", r.Valid(h.ID()), h.Remaining(), h.Guard())
		}
		_, err := h.Detach(context.Background())
		r.wantErr("another Detach", err, ErrReleased)
		r.wantErr("Update", h.Update(context.Background(), increment), ErrReleased)
		r.wantErr("UpdateAndRelease", h.UpdateAndRelease(context.Background(), increment), ErrReleased)
		r.wantErr("Delete", h.Delete(context.Background()), ErrReleased)
		r.wantErr("Renew", h.Renew(context.Background()), ErrReleased)
		r.wantErr("Release", h.Release(context.Background()), nil)
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

// Rule 23. Detach is refused for an entry that other local holders have. Without
// it a user of the token releases the entry of the others.
func TestRule23DetachOfASharedEntryIsRefused(t *testing.T) {
	virtual(t, func(r *rig) {
		all := r.share(2)
		r.detach(all[0], ErrInvalidArgument)
		r.wantErr("Err", all[0].Err(), nil)
		r.wantErr("Release", all[1].Release(context.Background()), nil)
		r.detach(all[0], nil)
		r.wantSent("detach")
	})
}

// Rule 23. From the send of a detach on no local holder joins.
func TestRule23NobodyJoinsADetachedEntry(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "read")
		r.server.fault = func(context.Context, call) error {
			if r.Join(h.ID()) != nil || h.hold.join() != nil {
				r.Error("joined at the send")
			}
			return nil
		}
		r.detach(h, nil)
		if r.Join(h.ID()) != nil || h.hold.join() != nil {
			r.Error("joined a detached entry")
		}
	})
}

// lost is the error of a command whose reply is lost.
var lostReply = errors.New("connection lost")

// A detach of unknown outcome is repeated with the same key.
func TestDetachIsRepeatedWithTheSameKey(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		var keys []uuid.UUID
		r.server.lose = func(call) error {
			keys = append(keys, r.server.entries[h.ID()].key)
			if len(keys) < 3 {
				return lostReply
			}
			return nil
		}
		key := r.detach(h, nil)
		if len(keys) != 3 || keys[0] != key || keys[1] != key || keys[2] != key {
			r.Errorf("sent the keys %v, the token's is %v", keys, key)
		}
		r.wantSent("detach", "detach", "detach")
	})
}

// If a repeat finds nothing, a read tells whether an earlier attempt has left the
// entry to a user of the token, who has resumed it since.
func TestDetachFindsOutByTheKey(t *testing.T) {
	for name, resumed := range map[string]bool{"resumed": true, "gone": false} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.take(1, "write")
				r.server.lose = func(c call) error {
					e := r.server.entries[h.ID()]
					if e == nil {
						return nil
					}
					delete(r.server.entries, h.ID())
					if resumed {
						r.server.entries[uuid.New()] = e
					}
					return lostReply
				}
				want := ErrLost
				if resumed {
					want = nil
				}
				r.detach(h, want)
				r.wantErr("Release", h.Release(context.Background()), want)
				r.wantSent("detach", "detach", "read")
			})
		})
	}
}

// If no attempt is answered, the caller may use the token or release the entry,
// which may have the key, and nothing else.
func TestDetachOfUnknownOutcome(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		away := true
		r.server.lose = func(call) error {
			if away {
				return lostReply
			}
			return nil
		}
		begun := time.Now()
		key := r.detach(h, ErrOutcomeUnknown)
		if took := time.Since(begun); took > ttl+r.engine.Tolerance {
			r.Errorf("it took %v", took)
		}
		r.wantErr("Update", h.Update(context.Background(), increment), ErrReleased)
		_, err := h.Detach(context.Background())
		r.wantErr("another Detach", err, ErrReleased)
		away = false
		r.server.forget()
		if g := h.hold.last(); g.Key != key {
			r.Errorf("released with the key %v, not %v", g.Key, key)
		}
		r.wantErr("Release", h.Release(context.Background()), nil)
		r.wantSent("release")
	})
}

// A caller who gives up has the token. A Release after that waits for the detach,
// and ends the entry.
func TestDetachGivenUp(t *testing.T) {
	for name, releases := range map[string]bool{"and released": true, "and used": false} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.take(1, "write")
				r.delay("detach", time.Second)
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				text, err := h.Detach(ctx)
				r.wantErr("Detach", err, ErrOutcomeUnknown)
				r.wantErr("Detach", err, context.DeadlineExceeded)
				if _, err := r.engine.ParseToken(text); err != nil {
					r.Error(err)
				}
				if !releases {
					time.Sleep(time.Minute)
					r.wantSent("detach")
					return
				}
				r.wantErr("Release", h.Release(context.Background()), nil)
				r.wantErr("Release again", h.Release(context.Background()), nil)
				r.wantSent("detach", "release")
			})
		})
	}
}

// A caller who gives up before the detach was sent has detached nothing.
func TestDetachRevoked(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.server.fault = func(context.Context, call) error {
			time.Sleep(time.Second)
			return &engine.Failure{Certain: true, NotSent: true, Patience: time.Minute}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		text, err := h.Detach(ctx)
		r.wantErr("Detach", err, context.Canceled)
		if text != "" || h.Err() != nil {
			r.Errorf("%q, %v", text, h.Err())
		}
		r.wantSent()
	})
}

// A detach that the server refuses leaves the entry, and a Release ends it.
func TestDetachRefused(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		refused := true
		r.server.fault = func(_ context.Context, c call) error {
			if refused && c.name == "detach" {
				return &engine.Failure{Certain: true}
			}
			return nil
		}
		_, err := h.Detach(context.Background())
		if err == nil || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrLost) {
			r.Errorf("Detach: %v", err)
		}
		refused = false
		r.detach(h, nil)
		r.wantErr("Release", h.Release(context.Background()), nil)
		r.wantSent("detach", "detach")
	})
}

// A lease that the server has declared lost is not detached. One whose time is up
// may still have its entry.
func TestDetachOfALostLease(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.server.remove(h)
		r.wantErr("Update", h.Update(context.Background(), increment), ErrLost)
		r.detach(h, ErrLost)
		r.wantSent("write")
		r.server.forget()

		late := r.take(2, "write")
		time.Sleep(time.Minute)
		r.wantErr("Err", late.Err(), ErrLost)
		r.detach(late, nil)
		r.detach(r.take(3, "write"), nil)
		gone := r.take(4, "write")
		r.server.remove(gone)
		r.detach(gone, ErrLost)
		r.wantErr("Release", gone.Release(context.Background()), ErrLost)
		r.wantErr("of the zero lease", func() error { _, err := (&Handle{}).Detach(context.Background()); return err }(), ErrLost)
	})
}

// A detach waits for the writes and the renewals before it.
func TestDetachComesAfterTheCommandsBefore(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.delay("write", time.Second)
		written := make(chan error)
		go func() {
			written <- h.Update(context.Background(), bson.D{{Key: "$set", Value: bson.D{{Key: "a", Value: 1}}}})
		}()
		synctest.Wait()
		r.detach(h, nil)
		r.wantErr("Update", <-written, nil)
		r.wantSent("write", "detach")
	})
}

// A lease of a token detaches with the token's key.
func TestDetachKeepsTheKeyOfItsToken(t *testing.T) {
	virtual(t, func(r *rig) {
		g := r.grant(1, "write")
		g.Key = uuid.New()
		h := r.New(g, r.engine.Clocks(), false)
		if key := r.detach(h, nil); key != g.Key {
			r.Errorf("the key is %v, and was %v", key, g.Key)
		}
	})
}

// queue records what it is told.
type queue struct {
	nobody
	told []string
}

func (q *queue) Next(engine.Grant) Successor { q.told = append(q.told, "next"); return nil }
func (q *queue) Released(engine.Grant)       { q.told = append(q.told, "released") }
func (q *queue) Detached(engine.Grant)       { q.told = append(q.told, "detached") }

// A detach hands nothing over: the waiters of this process wait for the token's
// users.
func TestDetachWakesNobody(t *testing.T) {
	virtual(t, func(r *rig) {
		q := &queue{}
		r.locker.succession = q
		r.detach(r.take(1, "write"), nil)
		if len(q.told) != 1 || q.told[0] != "detached" {
			r.Errorf("the wait queue was told %v", q.told)
		}
	})
}
