package model

import (
	"math"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/doclock/doclock/proptest/model/interleave"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400)       // the searches allocate much and keep little
	debug.SetMemoryLimit(3 << 30) // whatever the above says
	goleak.VerifyTestMain(m)
}

// sampled keeps n of all, evenly spread.
func sampled[T any](all []T, n int) []T {
	var out []T
	for i := range min(n, len(all)) {
		out = append(out, all[i*len(all)/min(n, len(all))])
	}
	return out
}

// TestExhaustive searches small worlds for every interleaving, and visits every reachable
// state, or as many as the time allows. Without faults the clock still steps, and clients
// are slow.
func TestExhaustive(t *testing.T) {
	three := sampled(threeClients(), interleave.Budget(30, 60))
	again := func(cfg *config) { cfg.faults, cfg.rounds, cfg.tries = 1, 2, true }
	user := plain(exclusive, "aaa", tokens(2), saving)
	save := []config{user, with(user, stating), plain(exclusive, "aaaa", tokens(2), saving, stepping, beating)}
	handed := plain(exclusive, "aaa", faulty(1), tokens(1), saving, handing)
	all := plain(writers, "aba", tokens(1), keeping(3), converting)
	all.lowers = 1
	broken := []config{with(user, faulty(1), breaking), plain(queue, "aaa", faulty(1), saving, handing, breaking)}
	taken := each([]config{user, with(all, saving), handed, plain(mutual, "aba", handing, saving)}, taking, faulty(1))
	held := slices.Concat(each(pairs(), keeping(1)), each(pairs(), keeping(4))) // for less than a TTL, and for more
	reelected := func(cfg *config) { cfg.elections = 2 }
	behind, ahead := clocks(1, 0), clocks(0, 1)
	used := plain(exclusive, "aaa", tokens(2), beating)
	for _, c := range []struct {
		what   string
		worlds []config
		states int
	}{
		{"two tags, three clients", three, interleave.Pick(200, 8_000)},
		{"two tags, three clients, one fault", each(three, faulty(1)), interleave.Pick(200, 4_000)},
		{"two clients, one fault", each(pairs(), faulty(1)), interleave.Budget(200, 25_000)},
		{"two clients, two faults", each(pairs(), faulty(2)), interleave.Budget(200, 10_000)},
		{"two clients, two leases each, one fault", each(pairs(), again), interleave.Budget(200, 5_000)},
		{"two clients that claim, one fault", each(pairs(), faulty(1), claiming), interleave.Budget(200, 5_000)},
		{"two clients that claim in batches, one fault", each(pairs(), faulty(1), batching), interleave.Budget(200, 5_000)},
		{"two programs", twoPrograms(), interleave.Budget(1_000, 10_000)},
		{"a token, a step of the clock", each(tokenWorlds(), stepping), interleave.Budget(200, 3_000)},
		{"a token, one fault", each(tokenWorlds(), faulty(1)), interleave.Budget(200, 2_000)},
		{"two users that write", save, interleave.Budget(200, 10_000)}, // all number their first write 1
		{"two users that write, one fault", each(save, faulty(1)), interleave.Budget(200, 30_000)},
		{"two users that write, two faults", each(save, faulty(2)), interleave.Budget(200, 5_000)},
		{"a token and handoffs", []config{handed}, interleave.Budget(200, 20_000)},
		{"conversions", conversions(threeClients(), interleave.Budget(20, 30), 0, 0), interleave.Pick(200, 2_000)},
		{"conversions, one fault", conversions(threeClients(), interleave.Budget(20, 30), 0, 1), interleave.Pick(200, 1_000)},
		{"conversions of two clients that write", conversions(twoClients(), interleave.Budget(15, 20), 1, 0), interleave.Pick(200, 3_000)},
		{"conversions of two clients that write, one fault", conversions(twoClients(), interleave.Budget(15, 20), 1, 1), interleave.Pick(200, 1_000)},
		{"pairs that keep others out", held, interleave.Budget(200, 2_000)},
		{"pairs that keep others out, one fault", each(held, faulty(1)), interleave.Budget(200, 1_000)},
		{"an operator's break, one fault", broken, interleave.Budget(200, 20_000)},
		{"take-overs of three clients", each(three, taking), interleave.Pick(200, 2_000)},
		{"take-overs, one fault", each(pairs(), taking, faulty(1)), interleave.Budget(200, 10_000)},
		{"take-overs of two leases each, two faults", each(pairs(), taking, again, faulty(2)), interleave.Budget(200, 2_000)},
		{"take-overs of tokens and of what keeps others out, one fault", taken, interleave.Budget(200, 10_000)},
		{"tokens, take-overs, breaks and deletes, one fault", each([]config{plain(exclusive, "aa"), plain(exclusive, "aaa", tokens(1))}, taking, breaking, deleting, faulty(1)), interleave.Budget(200, 20_000)},
		{"a token that keeps others out and is converted", []config{all}, interleave.Budget(200, 20_000)},
		{"a token that keeps others out and is converted, one fault", each([]config{all}, faulty(1)), interleave.Budget(200, 20_000)},

		// The members' clocks differ by the tolerance, either way, and step.
		{"replica set: pairs, the new primary's clock is behind", each(pairs(), set, behind), interleave.Budget(300, 20_000)},
		{"replica set: pairs, it is ahead", each(pairs(), set, ahead), interleave.Budget(300, 20_000)},
		{"replica set: pairs, each client has a router", each(pairs(), set, behind, routed), interleave.Budget(300, 20_000)},
		{"replica set: pairs, one fault", each(pairs(), faulty(1), set, behind), interleave.Budget(300, 20_000)},
		{"replica set: pairs, two faults, two elections", each(pairs(), faulty(2), set, behind, reelected), interleave.Budget(200, 10_000)},
		{"replica set: pairs, two leases each, one fault", each(pairs(), again, set, ahead), interleave.Budget(200, 10_000)},
		{"replica set: pairs that claim, one fault", each(pairs(), faulty(1), claiming, set, behind), interleave.Budget(200, 5_000)},
		{"replica set: pairs that claim in batches, one fault", each(pairs(), faulty(1), batching, set, behind), interleave.Budget(200, 5_000)},
		{"replica set: pairs that keep others out, one fault", each(pairs(), keeping(4), faulty(1), set, behind), interleave.Budget(200, 10_000)},
		{"replica set: three clients, one fault", each(sampled(threeClients(), interleave.Budget(5, 60)), faulty(1), set, behind), interleave.Pick(500, 3_000)},
		{"replica set: users of a token, one fault", each([]config{used, with(used, saving), with(used, saving, stating), all}, faulty(1), set, behind), interleave.Budget(2_000, 100_000)},
		{"replica set: an operator's break, one fault", each(broken, set), interleave.Budget(200, 20_000)},
		{"replica set: take-overs, one fault", each(pairs(), taking, faulty(1), set, ahead), interleave.Budget(200, 5_000)},
		{"replica set: conversions, one fault", each(conversions(twoClients(), interleave.Budget(5, 30), 1, 1), set, ahead), interleave.Pick(500, 3_000)},
	} {
		t.Run(c.what, func(t *testing.T) { cover(t, c.worlds, c.states) })
	}
}

func cover(t *testing.T, worlds []config, states int) {
	t.Helper()
	var searches []func() interleave.Report
	for _, cfg := range worlds {
		searches = append(searches, func() interleave.Report { return explore(cfg, math.MaxInt, states) })
	}
	interleave.Cover(t, searches)
}

// relations are those that these searches give a pair.
var relations = []Relation{{}, {Cooperative, 0}, {Cooperative, 1}, {Assertive, 0}, {Assertive, 1}}

// twoTagRules lists all rules of two tags. Of rules that differ only in the
// tags' names it has one.
func twoTagRules() (all []Rules) {
	for i := range 5 * 5 * 5 * 5 {
		aa, ab, ba, bb := i/125, i/25%5, i/5%5, i%5
		if bb*5+ba >= aa*5+ab { // and not only the same with the tags swapped
			all = append(all, Rules{"a": {"a": relations[aa], "b": relations[ab]}, "b": {"a": relations[ba], "b": relations[bb]}})
		}
	}
	return all
}

// threeClients lists the worlds of three clients for all rules of two tags. If
// all three have the same tag, only that tag's relation to itself matters.
func threeClients() []config {
	var out []config
	for _, rules := range twoTagRules() {
		out = append(out, base(rules, "aab"), base(rules, "abb"))
	}
	for _, r := range relations {
		out = append(out, base(Rules{"a": {"a": r}}, "aaa"))
	}
	return out
}

// twoClients lists the worlds of two clients for all rules of two tags.
func twoClients() []config {
	var out []config
	for _, rules := range twoTagRules() {
		out = append(out, base(rules, "aa"), base(rules, "ab"))
	}
	return out
}

// pairs lists the worlds of two clients: with the same tag, or with two tags.
// Only the relations between the two matter.
func pairs() []config {
	var out []config
	for i, r := range relations {
		out = append(out, base(Rules{"a": {"a": r}}, "aa"))
		for _, back := range relations[i:] {
			out = append(out, base(Rules{"a": {"b": r}, "b": {"a": back}}, "ab"))
		}
	}
	return out
}

// twoPrograms lets programs with different rules meet.
func twoPrograms() []config {
	var out []config
	for _, other := range []Rules{{"b": {"b": {Cooperative, 0}}}, {"a": {"a": {Assertive, 0}}, "b": {}}, {"a": {"a": {Assertive, 0}}, "b": {"a": {Assertive, 0}}}} {
		cfg := plain(nil, "aab", programs(queue, queue, other), saving, stepping)
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
		out = append(out, plain(Rules{"a": {"a": r}}, "aaaa", tokens(2)))
		for _, back := range relations {
			out = append(out, plain(Rules{"a": {"b": r}, "b": {"a": back}}, "abaa", tokens(2)))
		}
	}
	return out
}

// conversions lets the clients of n of these worlds convert, each tag to the other.
func conversions(worlds []config, n, writes, faults int) []config {
	return each(sampled(worlds, n), func(cfg *config) {
		cfg.faults, cfg.writes, cfg.handoffs = faults, writes, false
		cfg.lower, cfg.lowers = map[Tag]Tag{"a": "b", "b": "a"}, 1+faults
		if own := cfg.ruleSets[0]; len(own) == 1 {
			cfg.ruleSets = []Rules{{"a": own["a"], "b": {}}}
		}
	})
}
