package model

import (
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// full reports whether DOCLOCK_MODEL=full asks for the long search. It takes
// some ten minutes on two processors, the default some twenty seconds, -short
// a few.
func full() bool { return os.Getenv("DOCLOCK_MODEL") == "full" }

// pick returns the number for the available time. DOCLOCK_MODEL_SCALE
// multiplies the numbers of the full search.
func pick[T int | int64](short, usual, long T) T {
	switch {
	case full():
		if scale, err := strconv.Atoi(os.Getenv("DOCLOCK_MODEL_SCALE")); err == nil && scale > 0 {
			return long * T(scale)
		}
		return long
	case testing.Short():
		return short
	}
	return usual
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

// cover runs the searches, fails on a violation, and logs what was covered.
func cover(t *testing.T, what string, searches []search) {
	t.Helper()
	start := time.Now()
	all := runAll(searches)
	t.Logf("%s: %d worlds, %d of them completely, all others to depth %d at least; %d states in %v",
		what, all.worlds, all.complete, all.minDepth, all.states, time.Since(start).Round(time.Millisecond))
	if len(all.broken) > 0 {
		t.Errorf("%d of them broken, such as: %v", len(all.broken), all.broken[0])
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

// TestAllTwoTagRules lets three clients take every possible step, under all
// rules of two tags. The only faults are steps of the clock and slow clients.
// It visits every reachable state.
func TestAllTwoTagRules(t *testing.T) {
	var searches []search
	for _, cfg := range sampled(threeClients(twoTagRules()), pick(30, 60, 655)) {
		searches = append(searches, search{cfg: cfg, depth: 99, maxStates: pick(1_000, 8_000, 200_000)})
	}
	cover(t, "two tags, three clients, no faults", searches)
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

// TestAllTwoTagRulesWithFaults is the same with an attempt that is lost,
// delayed, doubled or not answered.
func TestAllTwoTagRulesWithFaults(t *testing.T) {
	var searches []search
	for _, cfg := range sampled(threeClients(twoTagRules()), pick(30, 60, 655)) {
		cfg.faults = 1
		searches = append(searches, search{cfg: cfg, depth: 99, maxStates: pick(1_000, 4_000, 10_000)})
	}
	cover(t, "two tags, three clients, one fault", searches)
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

// TestTwoClientsWithFaults searches the worlds of two clients completely for
// one fault, and deeply for two.
func TestTwoClientsWithFaults(t *testing.T) {
	for faults, states := range map[int]int{1: pick(5_000, 25_000, 10_000_000), 2: pick(2_000, 10_000, 50_000)} {
		var searches []search
		for _, cfg := range pairs() {
			cfg.faults = faults
			searches = append(searches, search{cfg: cfg, depth: 99, maxStates: states})
		}
		cover(t, "two clients, "+strconv.Itoa(faults)+" fault(s)", searches)
	}
}

// TestTwoLeasesPerClient lets clients acquire again with new ids, and
// try-acquire.
func TestTwoLeasesPerClient(t *testing.T) {
	var searches []search
	for _, cfg := range pairs() {
		cfg.faults, cfg.rounds, cfg.tries = 1, 2, true
		searches = append(searches, search{cfg: cfg, depth: 99, maxStates: pick(1_000, 5_000, 50_000)})
	}
	cover(t, "two clients, two leases each, one fault", searches)
}

// TestThreeTagRules samples the rules of three tags, with one client for each.
func TestThreeTagRules(t *testing.T) {
	const seed = 1
	ruleSets := threeTagRules(pick(20, 100, 1000), seed)
	t.Logf("seed %d", seed)
	var searches []search
	for i, rules := range ruleSets {
		cfg := base(rules, "a", "b", "c")
		cfg.faults = i % 2
		searches = append(searches, search{cfg: cfg, depth: 99, maxStates: pick(500, 1_000, 3_000)})
	}
	cover(t, "three tags, three clients, every other one with a fault", searches)
}

// TestTwoPrograms lets programs with different rules meet.
func TestTwoPrograms(t *testing.T) {
	one := Rules{"a": {"a": {Assertive, 0}}}
	var searches []search
	for _, other := range []Rules{
		{"b": {"b": {Cooperative, 0}}},
		{"a": {"a": {Assertive, 0}}, "b": {}},
		{"a": {"a": {Assertive, 0}}, "b": {"a": {Assertive, 0}}},
	} {
		for _, faults := range []int{0, 1} {
			cfg := base(nil, "a", "a", "b")
			cfg.ruleSets, cfg.faults, cfg.handoffs = []Rules{one, one, other}, faults, false
			searches = append(searches, search{cfg: cfg, depth: 99, maxStates: pick(2_000, 10_000, 50_000)})
		}
	}
	cover(t, "two programs", searches)
}
