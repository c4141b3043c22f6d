package machine

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
	"pgregory.net/rapid"
)

// reading is a look at a client's clocks; timers of leases take one, too.
func (c *client) reading() engine.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clocks
}

// set turns a client's clocks, each by its own.
func (c *client) set(mono, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clocks.Mono += mono
	c.clocks.Wall = c.clocks.Wall.Add(wall)
}

// turn lets both clocks of a client go on.
func (c *client) turn(n int64) { c.set(ms(n), ms(n)) }

// pass lets time pass everywhere.
func (m *apiMachine) pass(t *rapid.T) {
	passed := m.advance(t)
	for _, c := range m.clients {
		c.turn(max(1, passed))
	}
}

// clocks turns those of one client, as suspending its machine and setting its
// clock do. The monotonic one goes on by something, or two renewals would have
// the same time by it.
func (m *apiMachine) clocks(t *rapid.T) {
	c := pick(t, "client", m.clients)
	wall := rapid.SampledFrom([]int64{1, -3_600_000, -100, 1000, 30_000, apiTTL - 2, apiTTL - 1, apiTTL}).Draw(t, "wall clock")
	mono := rapid.SampledFrom([]int64{1, 30_000, apiTTL - 2, apiTTL}).Draw(t, "monotonic clock")
	c.set(ms(mono), ms(wall))
	t.Logf("a client's clocks have been turned by %d and %d", mono, wall)
}
