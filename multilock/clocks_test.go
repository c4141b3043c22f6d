package multilock_test

import (
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
)

// The event of a clock's jump comes once, with its size and its sign, and so does that
// of an election of a member with another clock. There is none of a difference of less
// than a quarter of the tolerance, and none of an outage.
func TestJumpsOfTheServersClock(t *testing.T) {
	t.Parallel()
	const tolerance = time.Second
	for name, c := range map[string]struct {
		step func(*locktest.Cluster)
		want time.Duration
	}{
		"nothing":                        {func(*locktest.Cluster) {}, 0},
		"a little forward":               {func(c *locktest.Cluster) { c.Advance(c.Primary(), tolerance/5) }, 0},
		"a little back":                  {func(c *locktest.Cluster) { c.Advance(c.Primary(), -tolerance/5) }, 0},
		"forward":                        {func(c *locktest.Cluster) { c.Advance(c.Primary(), tolerance/2) }, tolerance / 2},
		"back":                           {func(c *locktest.Cluster) { c.Advance(c.Primary(), -tolerance/2) }, -tolerance / 2},
		"an election":                    {func(c *locktest.Cluster) { c.StepDown() }, 0},
		"an election, and another clock": {func(c *locktest.Cluster) { skew(c, -time.Minute); c.StepDown() }, -time.Minute},
		"a lost reply":                   {func(c *locktest.Cluster) { c.LoseReplies(1) }, 0},
		"a slow command":                 {func(c *locktest.Cluster) { c.Delay(1, 2*time.Second) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onCluster(t, func(r *replicated) {
				h, hear := r.heard()
				l := r.locker(doclock.ClockTolerance(tolerance), hear)
				pairs := func() {
					for range 20 {
						r.release(r.got(l.Acquire(r.Context(), flowers, "write")))
						time.Sleep(time.Second)
					}
				}
				pairs()
				c.step(r.cluster)
				pairs()
				events := h.of(doclock.EventClockJumped)
				if c.want == 0 && len(events) == 0 {
					return
				}
				if len(events) != 1 || (events[0].Jump-c.want).Abs() > 10*time.Millisecond || events[0].Collection != "test.documents" {
					r.Errorf("events %+v, want one of %v", events, c.want)
				}
			})
		})
	}
}

// skew turns the clocks of the members that are not primary.
func skew(c *locktest.Cluster, d time.Duration) {
	for _, member := range c.Secondaries() {
		c.Advance(member, d)
	}
}
