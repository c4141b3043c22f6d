package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
)

// Leases of several TTLs are kept alive beside each other, each by its own: none
// is lost, and none is renewed more often than it needs.
func TestLeasesOfSeveralTTLsAreKept(t *testing.T) {
	virtual(t, func(r *rig) {
		ttls := []time.Duration{ttl / 12, ttl / 4, ttl, 10 * ttl, 1000 * ttl}
		var leases []*Lease
		for _, own := range ttls {
			for range 2 {
				leases = append(leases, r.New(r.grantBy(len(leases), "write", engine.Terms{TTL: own}), r.engine.Clocks()))
			}
		}
		r.keep(leases...)
		const span = 4 * ttl
		time.Sleep(span)
		renewals := map[int]int{}
		for _, c := range r.server.calls() {
			for _, document := range c.documents {
				renewals[document]++
			}
		}
		for i, h := range leases {
			own := ttls[i/2]
			if h.Err() != nil || h.Remaining() < own/2 {
				r.Errorf("the lease of %v: %v, %v left", own, h.Err(), h.Remaining())
			}
			// Leases that are due within the next ninth of a TTL are included.
			least, most := int(span/(own/3))-1, int(span/(own*2/9))+1
			if n := renewals[int(h.DocumentID().Int32())]; n < least || n > most {
				r.Errorf("the lease of %v was renewed %d times, want %d to %d", own, n, least, most)
			}
		}
	})
}

// A command's time is bounded by the lease's own TTL.
func TestAnAttemptIsBoundedByTheLeasesOwnTTL(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.New(r.grantBy(1, "write", engine.Terms{TTL: ttl / 4}), r.engine.Clocks())
		begun := time.Now()
		first := true
		r.server.fault = func(ctx context.Context, _ call) error {
			if !first {
				return nil
			}
			first = false
			<-ctx.Done()
			if passed := time.Since(begun); passed != ttl/12 {
				r.Errorf("the attempt took %v", passed)
			}
			return ctx.Err()
		}
		r.wantErr("renew", h.Renew(context.Background()), nil)
	})
}

// The last attempt at a renewal ends with the lease, if that is sooner than its own time.
func TestARepeatedRenewalEndsWithTheLease(t *testing.T) {
	virtual(t, func(r *rig) {
		h := r.take(1, "write")
		time.Sleep(ttl / 2)
		left := h.Remaining()
		r.fault(func(ctx context.Context, _ call) error {
			<-ctx.Done()
			return ctx.Err()
		})
		begun := time.Now()
		r.wantErr("renew", h.Renew(context.Background()), doclock.ErrLost)
		if took := time.Since(begun); took > left {
			r.Errorf("it took %v, and the lease was valid for %v", took, left)
		}
		r.wantSent("renew", "renew")
	})
}

// Rule 25: an update that leaves a remainder is followed by a release of its own. If the update
// was applied, nobody was let in before it, whatever becomes of that release.
func TestRule25AnAppliedUpdateIsTheLastWord(t *testing.T) {
	away := engine.AsFailure(errors.New("no server"))
	away.Nothing = true
	for name, meets := range map[string]func(s *server, f func(call) error){
		"lost replies": func(s *server, f func(call) error) { s.lose = f },
		"no server":    func(s *server, f func(call) error) { s.fault = func(_ context.Context, c call) error { return f(c) } },
	} {
		for _, err := range []error{errReplyLost, away} {
			t.Run(fmt.Sprint(name, ", ", err), func(t *testing.T) {
				virtual(t, func(r *rig) {
					l := r.New(r.grantBy(1, "write", engine.Terms{Least: time.Minute}), r.engine.Clocks())
					meets(r.server, func(c call) error {
						if c.name == "release" {
							return err
						}
						return nil
					})
					r.wantErr("UpdateAndRelease", l.UpdateAndRelease(context.Background(), increment), nil)
					sent := len(r.server.sent())
					r.wantErr("Release", l.Release(context.Background()), nil)
					if more := r.server.sent()[sent:]; len(more) > 0 {
						r.Errorf("Release sent %v", more)
					}
				})
			})
		}
	}
}
