package machine

import (
	"github.com/doclock/doclock/internal/engine"
	"pgregory.net/rapid"
)

// reading reads a client's clocks. Timers of leases use it too.
func (c *client) reading() engine.Reading { return engine.Reading(c.clocks.Read()) }

// turn advances both clocks of a client.
func (c *client) turn(n int64) { c.clocks.Pass(ms(n)) }

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
	c.clocks.Turn(ms(mono), ms(wall))
	t.Logf("a client's clocks have been turned by %d and %d", mono, wall)
}
