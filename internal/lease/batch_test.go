package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A batch that fails, once, is no loss. Its leases go alone only where one of
// them may be the reason.
func TestRule20UnknownOutcomes(t *testing.T) {
	broken := mongo.CommandError{Message: "connection reset", Labels: []string{"NetworkError"}}
	for name, c := range map[string]struct {
		fault func(context.Context, call) error
		lose  func(call) error
		sent  []string
	}{
		"the reply is lost":   {nil, once("renew all", broken), []string{"renew all", "read"}},
		"the request is lost": {before(once("renew all", broken)), nil, []string{"renew all", "read", "renew all"}},
		// One of them may be the reason, and must not end the others.
		"refused":        {before(once("renew all", &engine.Failure{Nothing: true})), nil, []string{"renew all", "read", "renew", "renew", "renew"}},
		"nobody answers": {before(once("renew all", context.DeadlineExceeded)), nil, []string{"renew all", "read", "renew", "renew", "renew"}},
		"and nothing can be read": {
			before(once("renew all", broken), once("read", errors.New("not authorized"))), nil,
			[]string{"renew all", "read", "renew all"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				leases := r.many(3)
				r.server.fault, r.server.lose = c.fault, c.lose
				kept := r.keep(leases...)
				time.Sleep(ttl/3 + ttl/20 + aLittle) // what failed is tried again after a pause
				r.wantSent(c.sent...)
				r.wantFresh(leases...)
				for _, k := range kept {
					if k.Err() != nil {
						r.Errorf("taken for a loss: %v", context.Cause(k))
					}
				}
				r.server.forget()
				time.Sleep(ttl / 3)
				r.wantSent("renew all")
			})
		})
	}
}

// Rule 20, and 4: the validity counts from the send of the command that matched all, or
// of the read.
func TestRule20AnchoredAtTheSend(t *testing.T) {
	for _, answered := range []string{"renew all", "read"} {
		virtual(t, func(r *rig) {
			const late = ttl / 12
			leases := r.many(3)
			if answered == "read" {
				r.remove(leases[2])
			}
			r.delay(answered, late)
			r.keep(leases...)
			time.Sleep(ttl/3 + late + aLittle)
			for _, h := range leases[:2] {
				if left := h.Remaining(); left > ttl-late || left < ttl-late-2*aLittle {
					r.Errorf("%s: %v left", answered, left)
				}
			}
		})
	}
}

// Where the command has extended nothing, a read shows for how long the entries
// stand, which is less than a TTL: the Locker's, or a lease's own.
func TestRule20WhatStandsIsNotExtended(t *testing.T) {
	for _, own := range []time.Duration{ttl, 10 * ttl} {
		virtual(t, func(r *rig) {
			var leases []*Lease
			for i := range 3 {
				leases = append(leases, r.New(r.grantBy(1+i, "write", engine.Terms{TTL: own}), r.engine.Clocks()))
			}
			r.server.fault = func(_ context.Context, c call) error {
				if c.name != "read" {
					return mongo.CommandError{Labels: []string{"NetworkError"}}
				}
				return nil
			}
			r.keep(leases...)
			for passed := aLittle; passed < own; passed += own / 30 {
				time.Sleep(own / 30)
				for _, h := range leases {
					if left := h.Remaining(); left > own-passed {
						r.Fatalf("%v left after %v", left, passed)
					}
				}
			}
			for _, h := range leases {
				r.wantErr("after its TTL", h.Err(), doclock.ErrLost)
			}
		})
	}
}

// A renewal whose answer was lost counts from its send, as a later read shows, by each of
// the two clocks: the machine is suspended after it, or its clock is set back.
func TestRule20WhatStandsEndsByEitherClock(t *testing.T) {
	broken := mongo.CommandError{Labels: []string{"NetworkError"}}
	for name, stop := range map[string]func(*engine.Reading, time.Duration){
		"suspended": func(now *engine.Reading, d time.Duration) { now.Mono -= d },
		"set back":  func(now *engine.Reading, d time.Duration) { now.Wall = now.Wall.Add(-d) },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				straight, stopped := r.engine.Clock, time.Now().Add(ttl/2)
				r.engine.Clock = func() engine.Reading {
					now := straight()
					stop(&now, max(0, time.Since(stopped)))
					return now
				}
				leases := r.many(3)
				var extended time.Time
				r.server.fault = func(_ context.Context, c call) error {
					if extended.IsZero() || c.name == "read" && time.Since(extended) > ttl/20 {
						return nil
					}
					return broken
				}
				r.server.lose = func(c call) error {
					if c.name == "renew all" {
						extended = c.at
						return broken
					}
					return nil
				}
				r.keep(leases...)
				time.Sleep(ttl/2 - aLittle)
				for _, h := range leases {
					if left := h.left(); left < time.Until(extended.Add(ttl-10*time.Millisecond)) {
						r.Errorf("%v left", left)
					}
				}
				time.Sleep(time.Until(extended.Add(ttl + aLittle)))
				for _, h := range leases {
					r.wantErr("a TTL after the renewal", h.Err(), doclock.ErrLost)
				}
			})
		})
	}
}

// A read that doesn't show an entry after a batch without an answer is no loss: a server
// that refuses linearizable reads may not show it yet. The lease's own command decides.
func TestRule20WhatIsNotShownAfterABatchWithoutAnAnswer(t *testing.T) {
	for _, gone := range []bool{false, true} {
		virtual(t, func(r *rig) {
			leases := r.many(3)
			answered := false
			var hidden bson.M
			if err := r.server.coll.FindOne(context.Background(), doclock.ID(leases[2].DocumentID())).Decode(&hidden); err != nil {
				t.Fatal(err)
			}
			r.server.fault = func(_ context.Context, c call) error {
				if c.name == "renew all" && !answered {
					answered = true
					return context.DeadlineExceeded
				}
				if c.name == "read" {
					r.remove(leases[2])
				}
				return nil
			}
			r.server.lose = func(c call) error {
				if c.name == "read" && !gone {
					r.change(leases[2], bson.M{"$set": bson.M{"lock": hidden["lock"]}})
				}
				return nil
			}
			r.keep(leases...)
			time.Sleep(ttl/3 + aLittle)
			r.wantSent("renew all", "read")
			if err := leases[2].Err(); err != nil {
				r.Fatalf("taken for a loss: %v", err)
			}
			time.Sleep(ttl / 20)
			r.wantSent("renew all", "read", "renew", "renew", "renew")
			if gone {
				r.wantLost("the one that is gone", leases[2].Err(), doclock.LossEntryRemoved)
			} else {
				r.wantFresh(leases...)
			}
		})
	}
}

// A batch that nobody answers holds up no other.
func TestASlowBatchHoldsUpNoOther(t *testing.T) {
	virtual(t, func(r *rig) {
		first := r.many(2)
		r.delay("renew all", time.Minute)
		r.keep(first...)
		time.Sleep(ttl / 6)
		other := r.take(1, "write")
		r.keep(other)
		time.Sleep(ttl/3 + aLittle)
		r.wantSent("renew all", "renew") // and the first is not given up yet
		r.wantFresh(other)
	})
}
