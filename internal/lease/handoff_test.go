package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Attempts that can't be sent say nothing of the attempt that is answered, and
// are repeated as they are: a handoff that can't be sent is no reason to release
// the lock to nobody.
func TestAttemptsThatCantBeSentSayNothing(t *testing.T) {
	update := bson.A{bson.M{"$set": bson.M{"a": 1}}}
	release := func(h *Lease) error { return h.Release(context.Background()) }
	write := func(h *Lease) error { return h.UpdateAndRelease(context.Background(), update) }
	for name, c := range map[string]struct {
		end    func(*Lease) error
		waiter bool
		sent   string
	}{
		"release":                          {release, false, "release"},
		"update and release":               {write, false, "write and release"},
		"release to a waiter":              {release, true, "handoff"},
		"update and release, for a waiter": {write, true, "write and hand off"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				waiter := &somebody{}
				if c.waiter {
					waiter = r.somebody()
				}
				h := r.take(1, "write")
				unsent := 2
				r.server.fault = func(context.Context, call) error {
					if unsent--; unsent < 0 {
						return nil
					}
					return &engine.Failure{Nothing: true, Passes: true}
				}
				r.wantErr(name, c.end(h), nil)
				r.wantSent(c.sent, c.sent, c.sent)
				synctest.Wait() // the waiter learns it after the caller
				if answered := waiter.answers == 1; answered != c.waiter {
					r.Errorf("%d answers for the successor", waiter.answers)
				}
			})
		})
	}
}

// An attempt that may have been executed stays one, however many can't be sent
// after it: the outcome is unknown, and not certainly nothing.
func TestAnUnknownAttemptBeforeThoseThatCantBeSent(t *testing.T) {
	update := bson.M{"$set": bson.M{"a": 1}}
	for name, end := range map[string]func(*Lease) error{
		"release":            func(h *Lease) error { return h.Release(context.Background()) },
		"update and release": func(h *Lease) error { return h.UpdateAndRelease(context.Background(), update) },
		"delete":             func(h *Lease) error { return h.Delete(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.take(1, "write")
				r.server.lose = func(call) error {
					r.server.fault = func(context.Context, call) error {
						return &engine.Failure{Nothing: true, Passes: true}
					}
					return context.DeadlineExceeded
				}
				r.wantErr(name, end(h), doclock.ErrOutcomeUnknown)
			}, func(c *engine.Config) { c.TTL = 5 * time.Minute }) // longer than it is tried: what is unknown is the attempt
		})
	}
}

// A last command that no server takes gives way to a release once its caller has left: nobody
// else would end the lock.
func TestALastCommandThatIsLeftGivesWayToARelease(t *testing.T) {
	for name, end := range map[string]func(*Lease, context.Context) error{
		"update and release": func(h *Lease, ctx context.Context) error { return h.UpdateAndRelease(ctx, increment) },
		"delete":             (*Lease).Delete,
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				h := r.take(1, "write")
				r.server.fault = func(_ context.Context, c call) error {
					if c.name == "release" {
						return nil
					}
					return &engine.Failure{Nothing: true, Passes: true}
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				r.wantErr(name, end(h, ctx), doclock.ErrOutcomeUnknown)
				time.Sleep(aLittle)
				if left := r.entries(h); len(left) > 0 {
					r.Errorf("there are %v", left)
				}
			})
		})
	}
}
