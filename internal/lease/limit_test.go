package lease

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
)

// limited takes the write lock of a document for most.
func (r *rig) limited(id int, most time.Duration) *Lease {
	return r.New(r.grantBy(id, "write", engine.Terms{Most: most}), r.engine.Clocks())
}

// wantLimit fails unless the lease ended because its HoldAtMost is over.
func (r *rig) wantLimit(what string, err error) {
	r.Helper()
	r.wantLost(what, err, doclock.LossHeldAtMost)
}

// expires is when the server lets others in.
func (r *rig) expires(h *Lease) time.Time { return r.entry(h).Expires }

// A lease that is renewed for ever ends with its limit, alone and in batches. The
// server keeps it for a TTL and the tolerance after the last renewal before that.
func TestALeaseEndsWithItsLimit(t *testing.T) {
	for _, most := range []time.Duration{ttl / 2, ttl, ttl + time.Millisecond, ttl + time.Second, 5 * ttl / 2, 10 * ttl, 7777 * time.Millisecond} {
		for _, n := range []int{1, 3, 150} {
			t.Run(fmt.Sprint(most, " of ", n), func(t *testing.T) {
				virtual(t, func(r *rig) {
					begun := time.Now()
					var leases []*Lease
					for i := range n {
						leases = append(leases, r.limited(400+i, most))
					}
					others := r.many(2) // which go on
					kept := r.keep(append(leases, others...)...)
					for i, h := range leases {
						<-kept[i].Done()
						if passed := time.Since(begun); passed != most-resolution {
							r.Fatalf("it ended after %v", passed)
						}
						r.wantLimit("the context", context.Cause(kept[i]))
						r.wantLimit("Err", h.Err())
						r.wantLimit("Renew", h.Renew(context.Background()))
						if late := r.expires(h).Sub(begun) - most - r.engine.Tolerance; late < 0 || late > ttl {
							r.Fatalf("others are let in %v after the limit and the tolerance, at most a TTL", late)
						}
					}
					r.server.forget()
					time.Sleep(ttl)
					r.wantFresh(others...)
					for _, c := range r.server.calls() {
						if len(c.documents) > len(others) {
							r.Errorf("%d were renewed after the limit", len(c.documents)-len(others))
						}
					}
				})
			})
		}
	}
}

// A renewal right before the limit is answered late: the lease ends with the
// limit, and its caller learns it.
func TestALateRenewalDoesNotMoveTheLimit(t *testing.T) {
	for name, late := range map[string]func(*server, func()){
		"executed late": func(s *server, wait func()) { s.fault = func(context.Context, call) error { wait(); return nil } },
		"answered late": func(s *server, wait func()) { s.lose = func(call) error { wait(); return nil } },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				const most, left, slow = 2 * ttl, 100 * time.Millisecond, 2 * time.Second
				begun := time.Now()
				h := r.limited(1, most)
				for passed := ttl / 2; passed < most-left; passed += ttl / 2 {
					time.Sleep(ttl / 2)
					r.wantErr("Renew", h.Renew(context.Background()), nil)
				}
				time.Sleep(time.Until(begun.Add(most - left)))
				late(r.server, func() { time.Sleep(slow) })
				go func() { r.wantLimit("Renew", h.Renew(context.Background())) }()
				<-h.Done()
				if passed := time.Since(begun); passed != most-resolution {
					r.Errorf("it ended after %v", passed)
				}
				r.wantLimit("Err", h.Err())
				time.Sleep(2 * slow)
				if late := r.expires(h).Sub(begun) - most - r.engine.Tolerance; late > ttl {
					r.Errorf("others are let in %v after the limit and the tolerance, at most a TTL", late)
				}
			})
		})
	}
}

// The limit ends by the clock that says so first: that of a machine that was
// suspended, and that of one whose wall clock was set back.
func TestTheLimitEndsByEitherClock(t *testing.T) {
	const most = ttl + 2*time.Second
	for name, c := range map[string]struct{ mono, wall, ends time.Duration }{
		"suspended":         {0, 4 * time.Second, most - 4*time.Second},
		"suspended for all": {0, time.Hour, ttl - time.Second},
		"set back":          {0, -time.Hour, most},
		"set forward":       {0, time.Second, most - time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				begun := time.Now()
				straight := r.engine.Clock
				r.engine.Clock = func() engine.Reading {
					now := straight()
					if time.Since(begun) >= ttl-time.Second {
						now.Wall = now.Wall.Add(c.wall)
					}
					return now
				}
				h := r.limited(1, most)
				kept := r.keep(h)[0]
				<-kept.Done()
				// The timers look a few times a TTL at the wall clock.
				if passed := time.Since(begun); passed < c.ends-resolution || passed > c.ends+ttl/4 {
					r.Errorf("it ended after %v, want %v", passed, c.ends)
				}
				r.wantLimit("the context", context.Cause(kept))
			})
		})
	}
}

// A conversion passes the limit on, counted from the first grant, and says how long it
// has taken itself. After the limit it is refused, and nothing is sent.
func TestAConversionKeepsTheLimit(t *testing.T) {
	for _, at := range []time.Duration{0, ttl, 3*ttl - time.Second} {
		virtual(t, func(r *rig) {
			const most = 3 * ttl
			events := r.observe()
			begun := time.Now()
			h := r.limited(1, most)
			h.Announce(context.Background(), doclock.Event{Owner: "ann"})
			r.keep(h)
			time.Sleep(at)
			next := r.convert(r.convert(h, nil), nil) // twice
			for _, e := range events.take() {
				if e.Kind == doclock.EventGranted && e.Waited > 5*time.Millisecond {
					r.Errorf("a conversion has waited for %v", e.Waited)
				}
			}
			if got, want := next.grant.TTL, r.engine.Lease("read"); got != want {
				r.Errorf("its TTL is %v, want %v", got, want)
			}
			kept := r.keep(next)[0]
			<-kept.Done()
			if passed := time.Since(begun); passed != most-resolution {
				r.Errorf("it ended after %v", passed)
			}
			r.wantLimit("the context", context.Cause(kept))
			if late := r.expires(next).Sub(begun) - most - r.engine.Tolerance; late < 0 || late > ttl {
				r.Errorf("others are let in %v after the limit and the tolerance, at most a TTL", late)
			}
			r.server.forget()
			_, err := next.Convert(context.Background(), "write")
			r.wantLimit("Convert", err)
			r.wantSent()
			r.wantErr("Release", next.Release(context.Background()), nil) // nobody was let in
		})
	}
}

// Renewals stop when the entry lasts until the limit. A loss before it is a loss like any
// other, and the event of its end says why.
func TestTheEndsOfALimitedLease(t *testing.T) {
	for removed, sent := range map[bool][]string{false: {"renew", "renew", "renew"}, true: {"renew", "renew"}} {
		virtual(t, func(r *rig) {
			e := r.observe()
			h := r.limited(1, 2*ttl-time.Second)
			h.Announce(context.Background(), doclock.Event{})
			r.keep(h)
			time.Sleep(ttl / 2)
			if removed {
				r.remove(h)
			}
			<-h.Done()
			r.wantSent(sent...) // after a third, two thirds and a whole TTL: the last one is by what is left
			events := e.take()
			want := doclock.LossHeldAtMost
			if removed {
				want = doclock.LossEntryRemoved
			}
			r.wantLost("Err", h.Err(), want)
			if err := events[len(events)-1].Err; err != h.Err() {
				r.Errorf("the last event has %v", err)
			}
		})
	}
}
