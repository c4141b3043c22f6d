package multilock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
)

// wantLimit fails unless err is the end of a HoldAtMost.
func (p *place) wantLimit(what string, err error) {
	p.Helper()
	if lost := (*doclock.LostError)(nil); !errors.As(err, &lost) || lost.Reason != doclock.LossHeldAtMost {
		p.Errorf("%s: %v, want the end of a HoldAtMost", what, err)
	}
}

// A holder that is stuck lets others in soon after its limit, and learns it. While
// nobody was let in, the server's word counts.
func TestHoldAtMostLetsOthersIn(t *testing.T) {
	t.Parallel()
	for _, most := range []time.Duration{3 * time.Second, 10 * time.Second, time.Minute} {
		for name, beside := range map[string]bool{"others wait": true, "nobody waits": false} {
			limit := doclock.HoldAtMost(most)
			of, opts := []doclock.Option{doclock.HoldAtMost(time.Second)}, []doclock.AcquireOption{limit}
			if most == time.Minute { // the Locker's own
				of, opts = []doclock.Option{limit}, nil
			}
			virtually(t, name, func(p *place) {
				mine, others := p.plain(relations.Exclusive(), of...), p.plain(relations.Exclusive())
				begun := time.Now()
				err := mine.Do(p.Context(), flowers, "write", func(ctx context.Context, lease doclock.Lease) error {
					<-ctx.Done()
					if passed := time.Since(begun).Round(10 * time.Millisecond); passed != most {
						p.Errorf("its context ended after %v, want %v", passed, most)
					}
					p.wantLimit("the context", context.Cause(ctx))
					p.wantLimit("Err", lease.Err())
					if beside {
						p.acquire(others, "write")
						if after := time.Since(begun); after > most+5*time.Second {
							p.Errorf("others were let in after %v of %v", after, most)
						}
					}
					time.Sleep(time.Minute) // it is stuck
					return nil
				}, opts...)
				if beside {
					p.want(err, doclock.ErrLost)
				} else {
					ok(p, err)
				}
			})
		}
	}
}

// Of several leases the first limit ends the context, also while the others are
// acquired.
func TestHoldAtMostOfOneOfSeveral(t *testing.T) {
	virtual(t, func(p *place) {
		l, others := p.plain(relations.Exclusive()), p.plain(relations.Exclusive())
		err := multilock.DoAll(p.Context(), func(ctx context.Context, leases multilock.Leases) error {
			<-ctx.Done()
			p.wantLimit("the context", context.Cause(ctx))
			p.wantLimit("the limited one", leases[0].Err())
			ok(p, leases[1].Err())
			return nil
		}, l.Want(doclock.ID(1), "write", doclock.HoldAtMost(30*time.Second)), l.Want(doclock.ID(2), "write"))
		if err != nil {
			p.Errorf("nobody was let in, and DoAll returned %v", err)
		}

		held := p.got(others.TryAcquire(p.Context(), doclock.ID(2), "write"))
		kept, stop := context.WithCancel(p.Context())
		defer stop()
		held.KeepAlive(kept)
		_, err = multilock.AcquireAll(p.Context(), l.Want(doclock.ID(1), "write", doclock.HoldAtMost(30*time.Second)), l.Want(doclock.ID(2), "write"))
		if !errors.Is(err, doclock.ErrNotAcquired) || !strings.Contains(err.Error(), "its HoldAtMost was up at") {
			p.Errorf("AcquireAll: %v", err)
		}
		ok(p, held.Release(p.Context()))
	})
}

// A waiter that gets the lock by a handoff has a limit of its own, which counts from
// its own grant, or none.
func TestHoldAtMostOfASuccessor(t *testing.T) {
	t.Parallel()
	for name, handoff := range handoffs {
		for _, most := range [][2]time.Duration{{0, 15 * time.Second}, {15 * time.Second, 0}, {15 * time.Second, 20 * time.Second}, {12800 * time.Millisecond, 0}, {0, 4 * time.Second}} {
			virtually(t, name, func(p *place) {
				l := p.plain(relations.Exclusive())
				limited := func(most time.Duration) (opts []doclock.AcquireOption) {
					if most > 0 {
						opts = append(opts, doclock.HoldAtMost(most))
					}
					return opts
				}
				held := p.acquire(l, "write", limited(most[0])...)
				held.KeepAlive(p.Context())
				successor := acquire(p, p.Context(), l, "write", limited(most[1])...)
				time.Sleep(3500 * time.Millisecond) // after a renewal, so that the successor may inherit what is left
				must(p, handoff.release(held))
				next := p.granted(successor)
				begun := time.Now()
				ctx := next.KeepAlive(p.Context())
				if most[1] == 0 {
					time.Sleep(5 * time.Minute)
					ok(p, next.Err())
					return
				}
				<-ctx.Done()
				p.wantLimit("the successor", context.Cause(ctx))
				if passed := time.Since(begun).Round(100 * time.Millisecond); passed != most[1] {
					p.Errorf("the successor ended after %v, want %v", passed, most[1])
				}
			})
		}
	}
}

// What can't be meant is refused. TestAcquireRefusesBadInput has the values.
func TestHoldAtMostIsChecked(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.WritePreferring())
		minute := doclock.HoldAtMost(time.Minute)
		fault{doclock.ErrInvalidArgument, []string{"HoldAtMost"}}.check(p, "less than HoldAtLeast",
			errOf(l.TryAcquire(p.Context(), flowers, "write", doclock.HoldAtLeast(2*time.Minute), minute)))
		_, err := multilock.New(p.coll, relations.WritePreferring(), minute, doclock.ShareInProcess("read"))
		fault{doclock.ErrInvalidArgument, []string{"HoldAtMost", `"read"`}}.check(p, "a Locker that shares", err)
		limited := p.plain(relations.Exclusive(), minute)
		fault{doclock.ErrInvalidArgument, []string{"HoldAtMost", "HoldAtLeast"}}.check(p, "less than HoldAtLeast", errOf(limited.TryAcquire(p.Context(), flowers, "write", doclock.HoldAtLeast(2*time.Minute))))
		held := p.try(l, "write", doclock.HoldAtLeast(time.Minute), minute)
		p.want(errOf(held.Detach(p.Context())), doclock.ErrInvalidArgument)
		p.release(held)
		time.Sleep(2 * time.Minute)
		token := p.detach(p.try(l, "write"))
		p.want(errOf(l.Resume(p.Context(), flowers, token, minute)), doclock.ErrInvalidArgument)
		resumed := p.resume(limited, token)
		resumed.KeepAlive(p.Context())
		time.Sleep(2 * time.Minute)
		ok(p, resumed.Err())
	})
}
