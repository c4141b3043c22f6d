package model

import (
	"slices"
	"testing"
)

// set is a world on a replica set of two members (those that only vote are left out), of which the other one is
// elected at some time.
func set(cfg config) config { cfg.members, cfg.elections = 2, 1; return cfg }

// TestReplicaSet searches small worlds on a replica set for every interleaving. The members' clocks differ by the
// tolerance, either way, and step.
func TestReplicaSet(t *testing.T) {
	behind := func(cfg *config) { cfg.members, cfg.elections, cfg.clocks = 2, 1, []int64{1, 0} }
	ahead := func(cfg *config) { cfg.members, cfg.elections, cfg.clocks = 2, 1, []int64{0, 1} }
	routed := func(cfg *config) { behind(cfg); cfg.routers = true }
	twice := func(cfg *config) { behind(cfg); cfg.elections = 2 }
	used := with(tokens(2, 0, exclusive, "a", "a", "a"), func(cfg *config) { cfg.beats = 1 })
	all := with(keeping(3, tokens(1, 0, writers, "a", "b", "a")), func(cfg *config) { cfg.lower, cfg.lowers = map[Tag]Tag{"a": "b"}, 1 })
	again := func(cfg *config) { cfg.faults, cfg.rounds, cfg.tries = 1, 2, true }
	held := each(pairs(), func(cfg *config) { cfg.hold, cfg.faults = 4, 1 })
	for _, c := range []struct {
		what   string
		worlds []config
		states int
	}{
		{"pairs, the new primary's clock is behind", each(pairs(), behind), pick(300, 20_000, 200_000)},
		{"pairs, it is ahead", each(pairs(), ahead), pick(300, 20_000, 200_000)},
		{"pairs, each client has a router", each(pairs(), routed), pick(300, 20_000, 200_000)},
		{"pairs, one fault", each(each(pairs(), faulty(1)), behind), pick(300, 20_000, 200_000)},
		{"pairs, two faults, two elections", each(each(pairs(), faulty(2)), twice), pick(200, 10_000, 100_000)},
		{"pairs, two leases each, one fault", each(each(pairs(), again), ahead), pick(200, 10_000, 100_000)},
		{"pairs that keep others out, one fault", each(held, behind), pick(200, 10_000, 100_000)},
		{"three clients, one fault", each(each(sampled(threeClients(twoTagRules()), pick(5, 60, 655)), faulty(1)), behind), pick(500, 3_000, 10_000)},
		{"users of a token, one fault", each(slices.Concat([]config{used}, []config{saving(used), all}), func(cfg *config) { cfg.faults = 1; behind(cfg) }), pick(2_000, 100_000, 500_000)},
		{"downgrades, one fault", each(downgrades(twoClients(), pick(5, 30, 999), 1, 1), ahead), pick(500, 3_000, 50_000)},
	} {
		t.Run(c.what, func(t *testing.T) { cover(t, c.worlds, c.states) })
	}
}
