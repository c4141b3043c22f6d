package model

import "testing"

// Exhaustive searches of detach and resume, of downgrades, and of HoldAtLeast.

// searched is one search for each of the worlds.
func searched(worlds []config, states int) []search {
	var out []search
	for _, cfg := range worlds {
		out = append(out, search{cfg: cfg, depth: 99, maxStates: states})
	}
	return out
}

// tokenWorlds lists the worlds of a holder that may detach, two users of its
// token, and an outsider with the same tag or with another one. Only the
// relations between the two matter.
func tokenWorlds(steps, faults int) []config {
	var out []config
	for _, r := range relations {
		out = append(out, tokens(2, faults, Rules{"a": {"a": r}}, "a", "a", "a", "a"))
		for _, back := range relations {
			rules := Rules{"a": {"b": r}, "b": {"a": back}}
			out = append(out, tokens(2, faults, rules, "a", "b", "a", "a"))
		}
	}
	for i := range out {
		out[i].steps = steps
	}
	return out
}

// TestTokens lets two users of a token come and go, with an outsider.
func TestTokens(t *testing.T) {
	cover(t, "a token, a step of the clock", searched(tokenWorlds(1, 0), pick(1_000, 3_000, 1_000_000)))
	cover(t, "a token, one fault", searched(tokenWorlds(0, 1), pick(500, 2_000, 100_000)))
}

// TestTokensAndWrites lets the users write: all number their first write 1.
func TestTokensAndWrites(t *testing.T) {
	for faults, states := range []int{pick(1_000, 10_000, 300_000), pick(1_000, 30_000, 500_000), pick(500, 5_000, 500_000)} {
		alone, beside := tokens(2, faults, exclusive, "a", "a", "a"), tokens(2, faults, exclusive, "a", "a", "a", "a")
		alone.writes, beside.writes, beside.steps, beside.beats = 1, 1, 1, 1
		cover(t, "two users that write", searched([]config{alone, beside}, states))
	}
}

// TestTokensHandedOver lets a token's user hand over, in both ways.
func TestTokensHandedOver(t *testing.T) {
	cfg := tokens(1, 1, exclusive, "a", "a", "a")
	cfg.handoffs, cfg.writes = true, 1
	cover(t, "a token and handoffs", searched([]config{cfg}, pick(1_000, 20_000, 500_000)))
}

// TestDowngrades lets three clients downgrade under all rules of two tags, each
// tag to the other.
func TestDowngrades(t *testing.T) {
	for faults, states := range []int{pick(500, 2_000, 8_000), pick(500, 1_000, 4_000)} {
		var worlds []config
		for _, cfg := range sampled(threeClients(twoTagRules()), pick(20, 30, 655)) {
			cfg.faults, cfg.writes, cfg.handoffs = faults, 0, false
			cfg.lower, cfg.lowers = map[Tag]Tag{"a": "b", "b": "a"}, 1+faults
			if len(cfg.ruleSets[0]) == 1 {
				cfg.ruleSets = []Rules{{"a": cfg.ruleSets[0]["a"], "b": {}}}
			}
			worlds = append(worlds, cfg)
		}
		cover(t, "downgrades", searched(worlds, states))
	}
}

// TestDowngradesOfPairs does it for two clients, with writes: completely
// without faults.
func TestDowngradesOfPairs(t *testing.T) {
	for faults, states := range []int{pick(500, 3_000, 1_000_000), pick(500, 1_000, 5_000)} {
		var worlds []config
		for _, cfg := range sampled(twoClients(), pick(15, 20, 999)) {
			cfg.faults, cfg.handoffs = faults, false
			cfg.lower, cfg.lowers = map[Tag]Tag{"a": "b", "b": "a"}, 1+faults
			worlds = append(worlds, cfg)
		}
		cover(t, "downgrades of two clients", searched(worlds, states))
	}
}

// twoClients lists the worlds of two clients for all rules of two tags.
func twoClients() []config {
	var out []config
	for _, rules := range twoTagRules() {
		out = append(out, base(rules, "a", "a"), base(rules, "a", "b"))
	}
	return out
}

// TestHolds lets releases, handoffs and downgrades keep others out, for less
// than a TTL and for more.
func TestHolds(t *testing.T) {
	for faults, states := range []int{pick(500, 2_000, 1_000_000), pick(500, 1_000, 30_000)} {
		var worlds []config
		for _, cfg := range pairs() {
			for _, hold := range []int64{1, 4} {
				cfg.faults, cfg.hold = faults, hold
				worlds = append(worlds, cfg)
			}
		}
		cover(t, "pairs that keep others out", searched(worlds, states))
	}
}

// TestHoldsOfTokens puts all of it together.
func TestHoldsOfTokens(t *testing.T) {
	for faults, states := range []int{pick(1_000, 20_000, 400_000), pick(1_000, 20_000, 400_000)} {
		cfg := tokens(1, faults, writers, "a", "b", "a")
		cfg.hold, cfg.lower, cfg.lowers = 3, map[Tag]Tag{"a": "b"}, 1
		cover(t, "a token that keeps others out and is downgraded", searched([]config{cfg}, states))
	}
}
