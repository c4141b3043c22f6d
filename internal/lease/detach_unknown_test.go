package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// errReplyLost is the error of a command whose reply is lost.
var errReplyLost = errors.New("connection lost")

// If a repeat finds nothing, a read shows whether an earlier attempt has left the
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
					return errReplyLost
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

// Others have had the token of a lease that was itself resumed. Its key in the
// document proves an earlier attempt only if nobody took the entry from a handle.
func TestDetachOfAResumedLeaseThatAnotherResumeHasTaken(t *testing.T) {
	for name, c := range map[string]struct {
		executed, released bool
		want               error
	}{
		"resumed before the detach":              {false, false, ErrOutcomeUnknown},
		"resumed after the detach":               {true, false, nil},
		"resumed and released before the detach": {false, true, ErrOutcomeUnknown},
		"resumed and released after the detach":  {true, true, ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				g := r.grant(1, "write")
				g.Key = uuid.New()
				h := r.New(g, r.engine.Clocks(), false)
				taken := func(call) error {
					e := r.server.entries[g.ID]
					if e == nil {
						return nil
					}
					delete(r.server.entries, g.ID)
					if !c.released {
						r.server.entries[uuid.New()] = &entry{document: 1, expires: e.expires, key: g.Key}
						if !c.executed {
							r.server.until = e.expires
						}
					}
					return errReplyLost
				}
				if c.executed {
					r.server.lose = taken
				} else {
					r.server.fault = func(_ context.Context, c call) error {
						r.server.mu.Lock()
						defer r.server.mu.Unlock()
						return taken(c)
					}
				}
				if key := r.detach(h, c.want); key != g.Key {
					r.Errorf("the key is %v, and was %v", key, g.Key)
				}
				if h.hold.isLost() {
					r.Error("the hold counts as lost")
				}
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
				return errReplyLost
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

// Attempts of the acquire are left to the clean-up once the entry has a key, or is gone:
// before that a removal by the id would end the lock.
func TestDetachLeavesUnansweredAttempts(t *testing.T) {
	refused := &engine.Failure{Nothing: true}
	for name, want := range map[string]error{"detached": nil, "lost": ErrLost, "in doubt": ErrOutcomeUnknown, "refused": refused} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.doubted(1, "write")
				switch want {
				case ErrLost:
					r.server.remove(h)
				case ErrOutcomeUnknown:
					r.server.lose = func(call) error { return errReplyLost }
				case refused:
					r.server.fault = func(context.Context, call) error { return refused }
				}
				_, err := h.Detach(context.Background())
				r.wantErr("Detach", err, want)
				if want == nil || want == ErrLost {
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
