package model

import (
	"os"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// How far the tests search is DOCLOCK_MODEL: not set, for some seconds; proof, for a minute of two processors; full,
// for some ten minutes.
var searchFor = os.Getenv("DOCLOCK_MODEL")

// pick returns the number for the available time.
func pick(seconds, minute, long int) int {
	switch searchFor {
	case "full":
		return long
	case "proof":
		return minute
	}
	return seconds
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400)       // the searches allocate much and keep little
	debug.SetMemoryLimit(3 << 30) // whatever the above says
	goleak.VerifyTestMain(m)
}

// base is the world of the exhaustive searches. Its numbers are small, so that
// every boundary is reached.
func base(rules Rules, tags ...Tag) config {
	return config{
		ruleSets: []Rules{rules}, tags: tags,
		ttl: 2, waitTTL: 1, tolerance: 1, tick: 1, patience: 3,
		steps: 1, writes: 1, rounds: 1, handoffs: true,
	}
}

// sampled keeps n of all, evenly spread.
func sampled[T any](all []T, n int) []T {
	var out []T
	for i := range min(n, len(all)) {
		out = append(out, all[i*len(all)/min(n, len(all))])
	}
	return out
}

// each is these worlds with something more.
func each(worlds []config, more func(*config)) []config {
	out := slices.Clone(worlds)
	for i := range out {
		more(&out[i])
	}
	return out
}

// faulty has this many attempts lost, delayed, doubled or not answered.
func faulty(n int) func(*config) { return func(cfg *config) { cfg.faults = n } }

// TestExhaustive searches small worlds for every interleaving, and visits every reachable
// state, or as many as the time allows. Without faults the clock still steps, and clients
// are slow.
func TestExhaustive(t *testing.T) {
	three := sampled(threeClients(twoTagRules()), pick(30, 60, 655))
	again := func(cfg *config) { cfg.faults, cfg.rounds, cfg.tries = 1, 2, true }
	user, beside := tokens(2, 0, exclusive, "a", "a", "a"), tokens(2, 0, exclusive, "a", "a", "a", "a")
	save := []config{saving(user), with(beside, saves)}
	handed := with(saving(tokens(1, 1, exclusive, "a", "a", "a")), func(cfg *config) { cfg.handoffs = true })
	all := with(keeping(3, tokens(1, 0, writers, "a", "b", "a")), func(cfg *config) { cfg.lower, cfg.lowers = map[Tag]Tag{"a": "b"}, 1 })
	short, long := func(cfg *config) { cfg.hold = 1 }, func(cfg *config) { cfg.hold = 4 } // than a TTL
	held := slices.Concat(each(pairs(), short), each(pairs(), long))
	behind := func(cfg *config) { *cfg = set(*cfg); cfg.clocks = []int64{1, 0} }
	ahead := func(cfg *config) { *cfg = set(*cfg); cfg.clocks = []int64{0, 1} }
	routed := func(cfg *config) { behind(cfg); cfg.routers = true }
	twice := func(cfg *config) { behind(cfg); cfg.elections = 2 }
	used := with(tokens(2, 0, exclusive, "a", "a", "a"), func(cfg *config) { cfg.beats = 1 })
	for _, c := range []struct {
		what   string
		worlds []config
		states int
	}{
		{"two tags, three clients", three, pick(200, 8_000, 200_000)},
		{"two tags, three clients, one fault", each(three, faulty(1)), pick(200, 4_000, 10_000)},
		{"two clients, one fault", each(pairs(), faulty(1)), pick(200, 25_000, 10_000_000)},
		{"two clients, two faults", each(pairs(), faulty(2)), pick(200, 10_000, 50_000)},
		{"two clients, two leases each, one fault", each(pairs(), again), pick(200, 5_000, 50_000)},
		{"three tags, three clients, every other one with a fault", threeTags(pick(20, 100, 1000)), pick(200, 1_000, 3_000)},
		{"two programs", twoPrograms(), pick(1_000, 10_000, 50_000)},
		{"a token, a step of the clock", each(tokenWorlds(), func(cfg *config) { cfg.steps = 1 }), pick(200, 3_000, 1_000_000)},
		{"a token, one fault", each(tokenWorlds(), faulty(1)), pick(200, 2_000, 100_000)},
		{"two users that write", save, pick(200, 10_000, 300_000)}, // all number their first write 1
		{"two users that write, one fault", each(save, faulty(1)), pick(200, 30_000, 500_000)},
		{"two users that write, two faults", each(save, faulty(2)), pick(200, 5_000, 500_000)},
		{"a token and handoffs", []config{handed}, pick(200, 20_000, 500_000)},
		{"downgrades", downgrades(threeClients(twoTagRules()), pick(20, 30, 655), 0, 0), pick(200, 2_000, 8_000)},
		{"downgrades, one fault", downgrades(threeClients(twoTagRules()), pick(20, 30, 655), 0, 1), pick(200, 1_000, 4_000)},
		{"downgrades of two clients that write", downgrades(twoClients(), pick(15, 20, 999), 1, 0), pick(200, 3_000, 1_000_000)},
		{"downgrades of two clients that write, one fault", downgrades(twoClients(), pick(15, 20, 999), 1, 1), pick(200, 1_000, 5_000)},
		{"pairs that keep others out", held, pick(200, 2_000, 1_000_000)},
		{"pairs that keep others out, one fault", each(held, faulty(1)), pick(200, 1_000, 30_000)},
		{"a token that keeps others out and is downgraded", []config{all}, pick(200, 20_000, 400_000)},
		{"a token that keeps others out and is downgraded, one fault", each([]config{all}, faulty(1)), pick(200, 20_000, 400_000)},

		// The members' clocks differ by the tolerance, either way, and step.
		{"replica set: pairs, the new primary's clock is behind", each(pairs(), behind), pick(300, 20_000, 200_000)},
		{"replica set: pairs, it is ahead", each(pairs(), ahead), pick(300, 20_000, 200_000)},
		{"replica set: pairs, each client has a router", each(pairs(), routed), pick(300, 20_000, 200_000)},
		{"replica set: pairs, one fault", each(each(pairs(), faulty(1)), behind), pick(300, 20_000, 200_000)},
		{"replica set: pairs, two faults, two elections", each(each(pairs(), faulty(2)), twice), pick(200, 10_000, 100_000)},
		{"replica set: pairs, two leases each, one fault", each(each(pairs(), again), ahead), pick(200, 10_000, 100_000)},
		{"replica set: pairs that keep others out, one fault", each(each(each(pairs(), long), faulty(1)), behind), pick(200, 10_000, 100_000)},
		{"replica set: three clients, one fault", each(each(sampled(threeClients(twoTagRules()), pick(5, 60, 655)), faulty(1)), behind), pick(500, 3_000, 10_000)},
		{"replica set: users of a token, one fault", each(each([]config{used, saving(used), all}, faulty(1)), behind), pick(2_000, 100_000, 500_000)},
		{"replica set: downgrades, one fault", each(downgrades(twoClients(), pick(5, 30, 999), 1, 1), ahead), pick(500, 3_000, 50_000)},
	} {
		t.Run(c.what, func(t *testing.T) { cover(t, c.worlds, c.states) })
	}
}

// cover searches the worlds, fails on a violation, and logs what was covered.
func cover(t *testing.T, worlds []config, states int) {
	t.Helper()
	start := time.Now()
	var searches []search
	for _, cfg := range worlds {
		searches = append(searches, search{cfg: cfg, depth: 99, maxStates: states})
	}
	complete, all, depth := 0, 0, 99
	for _, r := range runAll(searches) {
		all += r.states
		depth = min(depth, r.depth)
		if r.complete {
			complete++
		}
		if r.broken != nil {
			t.Errorf("broken: %v", r)
		}
	}
	t.Logf("%d worlds, %d of them completely, all others to depth %d at least; %d states in %v",
		len(worlds), complete, depth, all, time.Since(start).Round(time.Millisecond))
}

// threeClients lists the worlds of three clients for rules of two tags. If all
// three have the same tag, only that tag's relation to itself matters.
func threeClients(ruleSets []Rules) []config {
	var out []config
	for _, rules := range ruleSets {
		out = append(out, base(rules, "a", "a", "b"), base(rules, "a", "b", "b"))
	}
	for _, r := range relations {
		out = append(out, base(Rules{"a": {"a": r}}, "a", "a", "a"))
	}
	return out
}

// twoClients lists the worlds of two clients for all rules of two tags.
func twoClients() []config {
	var out []config
	for _, rules := range twoTagRules() {
		out = append(out, base(rules, "a", "a"), base(rules, "a", "b"))
	}
	return out
}

// pairs lists the worlds of two clients: with the same tag, or with two tags.
// Only the relations between the two matter.
func pairs() []config {
	var out []config
	for i, r := range relations {
		out = append(out, base(Rules{"a": {"a": r}}, "a", "a"))
		for _, back := range relations[i:] {
			out = append(out, base(Rules{"a": {"b": r}, "b": {"a": back}}, "a", "b"))
		}
	}
	return out
}

// threeTags samples the rules of three tags, with one client for each.
func threeTags(n int) []config {
	var out []config
	for i, rules := range threeTagRules(n, 1) {
		out = append(out, with(base(rules, "a", "b", "c"), faulty(i%2)))
	}
	return out
}

// twoPrograms lets programs with different rules meet.
func twoPrograms() []config {
	var out []config
	for _, other := range []Rules{{"b": {"b": {Cooperative, 0}}}, {"a": {"a": {Assertive, 0}}, "b": {}}, {"a": {"a": {Assertive, 0}}, "b": {"a": {Assertive, 0}}}} {
		cfg := programs(base(nil, "a", "a", "b"), queue, queue, other)
		cfg.handoffs = false
		out = append(out, cfg, with(cfg, faulty(1)))
	}
	return out
}

// tokenWorlds lists the worlds of a holder that may detach, two users of its
// token, and an outsider with the same tag or with another one. Only the
// relations between the two matter.
func tokenWorlds() []config {
	var out []config
	for _, r := range relations {
		out = append(out, tokens(2, 0, Rules{"a": {"a": r}}, "a", "a", "a", "a"))
		for _, back := range relations {
			out = append(out, tokens(2, 0, Rules{"a": {"b": r}, "b": {"a": back}}, "a", "b", "a", "a"))
		}
	}
	return out
}

// saves lets the users of a token write, beside an outsider.
func saves(cfg *config) { cfg.writes, cfg.steps, cfg.beats = 1, 1, 1 }

// downgrades lets the clients of n of these worlds downgrade, each tag to the other.
func downgrades(worlds []config, n, writes, faults int) []config {
	return each(sampled(worlds, n), func(cfg *config) {
		cfg.faults, cfg.writes, cfg.handoffs = faults, writes, false
		cfg.lower, cfg.lowers = map[Tag]Tag{"a": "b", "b": "a"}, 1+faults
		if own := cfg.ruleSets[0]; len(own) == 1 {
			cfg.ruleSets = []Rules{{"a": own["a"], "b": {}}}
		}
	})
}
