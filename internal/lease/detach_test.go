package lease

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// detach detaches, and reads the token.
func (r *rig) detach(h *Lease, want error) uuid.UUID {
	r.Helper()
	text, err := h.Detach(context.Background())
	r.wantErr("Detach", err, want)
	if (text != "") != (want == nil || errors.Is(want, doclock.ErrOutcomeUnknown)) {
		r.Errorf("the token %q beside %v", text, err)
	}
	if text == "" {
		return uuid.Nil
	}
	k, err := r.engine.ParseToken(text)
	if err != nil {
		r.Fatal(err)
	}
	return k.Key()
}

// wantEnded checks that a handle has ended: it sends nothing more.
func (r *rig) wantEnded(h *Lease, kept context.Context) {
	r.Helper()
	<-h.Done()
	<-kept.Done()
	r.wantErr("KeepAlive", context.Cause(kept), doclock.ErrReleased)
	r.wantErr("Err", h.Err(), doclock.ErrReleased)
	if r.Valid(h.DocumentID(), h.ID()) || h.Remaining() != 0 || len(h.Guard()) != 1 {
		r.Errorf("valid %v, %v left, guard %v", r.Valid(h.DocumentID(), h.ID()), h.Remaining(), h.Guard())
	}
	ctx := context.Background()
	_, err := h.Convert(ctx, "read")
	r.wantErr("Convert", err, doclock.ErrReleased)
	_, err = h.Detach(ctx)
	r.wantErr("Detach", err, doclock.ErrReleased)
	r.wantErr("Update", h.Update(ctx, increment), doclock.ErrReleased)
	r.wantErr("UpdateAndRelease", h.UpdateAndRelease(ctx, increment), doclock.ErrReleased)
	r.wantErr("Delete", h.Delete(ctx), doclock.ErrReleased)
	r.wantErr("Renew", h.Renew(ctx), doclock.ErrReleased)
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
		if e := r.entry(h); e.Key != key {
			r.Errorf("the entry is %+v, the token's key %v", e, key)
		}
		r.wantEnded(h, kept)
		r.wantSent("detach")
	})
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
		h.writing <- struct{}{} // a write is under way
		go func() {
			_, err := h.Detach(context.Background())
			detached <- err
		}()
		synctest.Wait()
		go func() { written <- h.Update(context.Background(), increment) }()
		synctest.Wait()
		h.writing.Unlock()
		if err := <-detached; err == nil || errors.Is(err, doclock.ErrOutcomeUnknown) || errors.Is(err, doclock.ErrLost) {
			r.Errorf("Detach: %v", err)
		}
		r.wantErr("Update", <-written, nil)
		if key := h.last().Key; key != uuid.Nil {
			r.Errorf("it would be released as a token's, with the key %v", key)
		}
		refused = false
		r.detach(h, nil)
		r.wantErr("Release", h.Release(context.Background()), nil)
		r.wantSent("detach", "write", "detach")
	})
}

// A release that waits for a detach, which its caller has left, is the lease's last command,
// whatever becomes of the detach: a later one sends nothing, and has the same answer.
func TestReleaseBehindADetach(t *testing.T) {
	for name, ends := range map[string]error{
		"executed":           nil,
		"refused":            &engine.Failure{Nothing: true},
		"of unknown outcome": errReplyLost,
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.take(1, "write")
				arrives := make(chan struct{})
				r.server.fault = func(_ context.Context, c call) error {
					if c.name != "detach" {
						return nil
					}
					<-arrives
					return ends
				}
				ctx, cancel := context.WithCancel(context.Background())
				detached, released := make(chan error, 1), make(chan error, 1)
				go func() { _, err := h.Detach(ctx); detached <- err }()
				synctest.Wait()
				cancel()
				r.wantErr("Detach", <-detached, doclock.ErrOutcomeUnknown)
				go func() { released <- h.Release(context.Background()) }()
				synctest.Wait()
				close(arrives)
				told := <-released
				sent := len(r.server.sent())
				if again := h.Release(context.Background()); !errors.Is(again, told) || len(r.server.sent()) != sent {
					r.Errorf("it said %v, and then %v", told, again)
				}
			})
		})
	}
}

func uuidOf(id uuid.UUID) bson.Binary { return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]} }

// errReplyLost is the error of a command whose reply is lost.
var errReplyLost = errors.New("connection lost")

// If a repeat finds nothing, a read shows whether an earlier attempt has left the
// entry to a user of the token, who has resumed it since. Without the entry nobody knows:
// that user may have released it, or an operator have broken it.
func TestDetachFindsOutByTheKey(t *testing.T) {
	for name, resumed := range map[string]bool{"resumed": true, "gone": false} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.take(1, "write")
				r.server.lose = func(c call) error {
					switch {
					case r.entry(h).ID == uuid.Nil:
						return nil
					case resumed:
						r.change(h, bson.M{"$set": bson.M{"lock.tags.write.0.id": uuidOf(uuid.New())}})
					default:
						r.remove(h)
					}
					return errReplyLost
				}
				if resumed {
					r.detach(h, nil)
					r.wantErr("Release", h.Release(context.Background()), nil)
				} else {
					r.detach(h, doclock.ErrOutcomeUnknown)
				}
				r.wantSent("detach", "detach", "read")
			})
		})
	}
}

// Others have had the token of a lease that was itself resumed. Its key in the
// document proves an earlier attempt only if nobody took the entry from a handle.
func TestDetachOfAResumedLeaseThatAnotherResumeHasTaken(t *testing.T) {
	for name, c := range map[string]struct {
		executed, released bool
		want               error
	}{
		"resumed before the detach":              {false, false, doclock.ErrOutcomeUnknown},
		"resumed after the detach":               {true, false, nil},
		"resumed and released before the detach": {false, true, doclock.ErrOutcomeUnknown},
		"resumed and released after the detach":  {true, true, doclock.ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				g := r.grant(1, "write")
				g.Secret = uuid.New()
				g.Key = engine.Token{Secret: g.Secret}.Key()
				h := r.New(g, r.engine.Clocks())
				taken := func(call) error {
					e := r.entry(h)
					switch {
					case e.ID == uuid.Nil:
						return nil
					case c.released:
						r.remove(h)
					default:
						theirs := bson.M{"lock.tags.write.0.id": uuidOf(uuid.New()), "lock.tags.write.0.key": uuidOf(g.Key)}
						if !c.executed {
							theirs["lock.tags.write.0.until"] = e.Expires
						}
						r.change(h, bson.M{"$set": theirs})
					}
					return errReplyLost
				}
				if c.executed {
					r.server.lose = taken
				} else {
					r.server.fault = func(_ context.Context, c call) error { return taken(c) }
				}
				if key := r.detach(h, c.want); key != g.Key {
					r.Errorf("the key is %v, and was %v", key, g.Key)
				}
				if h.declaredLoss() != nil {
					r.Error("the hold counts as lost")
				}
			})
		})
	}
}

// A release of a token's entry that finds nothing has removed it by an earlier attempt. Once
// the lease's time is up nobody knows: another user may have resumed and released it.
func TestAReleaseOfATokensEntryThatFindsNothing(t *testing.T) {
	for late, want := range map[bool]error{false: nil, true: doclock.ErrOutcomeUnknown} {
		virtual(t, func(r *rig) {
			g := r.grant(1, "write")
			g.Secret = uuid.New()
			g.Key = engine.Token{Secret: g.Secret}.Key()
			h := r.New(g, r.engine.Clocks())
			r.server.lose = func(call) error {
				if r.server.lose = nil; late {
					time.Sleep(ttl)
				}
				return errReplyLost
			}
			r.wantErr("Release", h.Release(context.Background()), want)
			r.wantSent("release", "release", "read")
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
				return errReplyLost
			}
			return nil
		}
		begun := time.Now()
		key := r.detach(h, doclock.ErrOutcomeUnknown)
		if took := time.Since(begun); took > ttl+r.engine.Tolerance {
			r.Errorf("it took %v", took)
		}
		r.wantErr("Update", h.Update(context.Background(), increment), doclock.ErrReleased)
		_, err := h.Detach(context.Background())
		r.wantErr("another Detach", err, doclock.ErrReleased)
		away = false
		r.server.forget()
		if g := h.last(); g.Key != key {
			r.Errorf("released with the key %v, not %v", g.Key, key)
		}
		r.wantErr("Release", h.Release(context.Background()), nil)
		r.wantSent("release")
	})
}

// A caller who leaves a detach that is under way has no lease any more.
func TestADetachThatIsLeftGivesNoGuard(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.server.fault = func(context.Context, call) error { time.Sleep(time.Second); return nil }
		ctx, cancel := context.WithTimeout(context.Background(), time.Second/2)
		defer cancel()
		_, err := h.Detach(ctx)
		r.wantErr("Detach", err, doclock.ErrOutcomeUnknown)
		r.wantErr("Err", h.Err(), doclock.ErrReleased)
		if g := h.Guard(); !reflect.DeepEqual(g, Nothing()) {
			r.Errorf("the guard is %v", g)
		}
		time.Sleep(time.Minute)
	})
}

// A caller who has left a detach can release the entry, also if the detach was executed.
func TestADetachThatIsLeftCanBeReleased(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		r.delay("detach", time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second/2)
		defer cancel()
		_, err := h.Detach(ctx)
		r.wantErr("Detach", err, doclock.ErrOutcomeUnknown)
		r.wantErr("Release", h.Release(context.Background()), nil)
		r.wantSent("detach", "release")
		if left := r.entries(h); len(left) > 0 {
			r.Errorf("there are %v", left)
		}
	})
}

// Attempts of the acquire are left to the clean-up once the entry has a key, or is gone:
// before that a removal by the id would end the lock.
func TestDetachLeavesUnansweredAttempts(t *testing.T) {
	refused := &engine.Failure{Nothing: true}
	for name, want := range map[string]error{"detached": nil, "lost": doclock.ErrLost, "in doubt": doclock.ErrOutcomeUnknown, "refused": refused} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.doubted(1, "write")
				switch want {
				case doclock.ErrLost:
					r.remove(h)
				case doclock.ErrOutcomeUnknown:
					r.server.lose = func(call) error { return errReplyLost }
				case refused:
					r.server.fault = func(context.Context, call) error { return refused }
				}
				_, err := h.Detach(context.Background())
				r.wantErr("Detach", err, want)
				if want == nil || want == doclock.ErrLost {
					r.wantUnanswered(h.ID())
					return
				}
				r.wantUnanswered()
				r.server.lose, r.server.fault = nil, nil
				_ = h.Release(context.Background())
				r.wantUnanswered(h.ID())
			})
		})
	}
}
