package machine

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
	"pgregory.net/rapid"
)

// reading reads a client's clocks. Timers of leases use it too.
func (c *client) reading() engine.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clocks
}

// set sets a client's clocks, each by its own amount.
func (c *client) set(mono, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clocks.Mono += mono
	c.clocks.Wall = c.clocks.Wall.Add(wall)
}

// turn advances both clocks of a client.
func (c *client) turn(n int64) { c.set(ms(n), ms(n)) }

// pass advances all clocks.
func (m *apiMachine) pass(t *rapid.T) {
	passed := m.advance(t)
	for _, c := range m.clients {
		c.turn(max(1, passed))
	}
}

// clocks sets the clocks of one client, as suspending its machine and setting
// its clock do. The monotonic clock always advances a little, or two renewals
// would have the same time.
func (m *apiMachine) clocks(t *rapid.T) {
	c := pick(t, "client", m.clients)
	wall := rapid.SampledFrom([]int64{1, -3_600_000, -100, 1000, 30_000, apiTTL - 2, apiTTL - 1, apiTTL}).Draw(t, "wall clock")
	mono := rapid.SampledFrom([]int64{1, 30_000, apiTTL - 2, apiTTL}).Draw(t, "monotonic clock")
	c.set(ms(mono), ms(wall))
	t.Logf("a client's clocks have been turned by %d and %d", mono, wall)
}
