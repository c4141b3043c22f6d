package model

import (
	"slices"
	"testing"
)

// set is a world on a replica set of two members (those that only vote are left out), of which the other one is
// elected at some time.
func set(cfg config) config { cfg.members, cfg.elections = 2, 1; return cfg }

// TestRule27FalseWords leaves out the linearizable read: what found nothing counts at once, or after a majority read.
// The search finds each false word, and prints the trace. With the read it finds none as deep, or in the whole world.
func TestRule27FalseWords(t *testing.T) {
	one := plain(0, exclusive, "a")
	claiming := with(one, func(cfg *config) { cfg.faults, cfg.tries = 1, true })
	deleting := with(one, func(cfg *config) { cfg.deletes = true })
	beating := with(tokens(1, 0, exclusive, "a", "a"), func(cfg *config) { cfg.beats = 1 })
	missing := func(cfg *config) { cfg.missing, cfg.outside, cfg.outsideWrites = true, deletes, 1 }
	for _, c := range []struct {
		property string
		world    config
	}{
		{"release: nil", plain(1, exclusive, "a")},
		{"release: lost", one},
		{"release: taken", tokens(1, 1, exclusive, "a", "a")},
		{"delete: nil", with(with(deleting, faulty(1)), missing)},
		{"delete: lost", deleting},
		{"renew: lost", one},
		{"check: lost", with(one, func(cfg *config) { cfg.checks = true })},
		{"write: lost", saving(one)},
		{"write-and-release: lost", saving(one)},
		{"once", saving(plain(1, exclusive, "a"))},
		{"downgrade: lost", lowers(0, writers, "a")},
		{"detach: lost", tokens(0, 0, exclusive, "a")},
		{"detach: token thrown away", tokens(0, 1, exclusive, "a")},
		{"resume: lost", tokens(1, 0, exclusive, "a", "a")},
		{"touch: lost", beating},
		{"clean-up: nothing", claiming},
		{"acquire: no document", with(one, missing)},
	} {
		t.Run(c.property, func(t *testing.T) {
			t.Parallel()
			cfg := set(c.world)
			cfg.only = []string{c.property}
			bold := cfg
			bold.protocol.Without.LinearizableRead = true
			found := search{cfg: bold, depth: 20}.run()
			if found.broken == nil {
				t.Fatalf("not noticed: %v", found)
			}
			t.Logf("%d states to find it: %v", found.states, found)
			depth := pick(found.depth+2, 99, 99) // the read is one step more
			all := search{cfg: cfg, depth: depth}.run()
			t.Logf("with the read: %d states to depth %d, all of them: %v", all.states, all.depth, all.complete)
			if all.broken != nil || !all.complete && depth == 99 {
				t.Errorf("with the read: %v", all)
			}
		})
	}
}

// TestNothingWaits leaves out that a command that changes nothing waits for what it has read. Then a repeat in the same
// millisecond is granted by a command that is rolled back.
func TestNothingWaits(t *testing.T) {
	t.Parallel()
	notice(t, set(plain(1, exclusive, "a", "a")), Without{NothingWaits: true}, "validity")
}

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

// TestWanderReplicaSet walks at random on a replica set, and meets all that can happen there.
func TestWanderReplicaSet(t *testing.T) {
	walks, seen := pick(150, 1_000, 10_000), map[string]int{}
	for seed := range walks {
		w := wander(seed, Without{}, steps(), replicaSet, func(a action, before, after world) { seen[metAt(a, before, after)]++ })
		if w.broken != nil {
			t.Fatalf("seed %d: %v", seed, w.broken)
		}
	}
	delete(seen, "")
	t.Logf("%d walks: %v", walks, seen)
	for _, what := range []string{
		"elected, with commands that were not committed", "elected, without some", "rolled back", "committed for the old leader's client",
		"answered by a deposed primary", "an old majority read", "a linearizable read shows it", "a linearizable read does not show it",
	} {
		if seen[what] == 0 {
			t.Errorf("%s: never", what)
		}
	}
}

// metAt names what the step was, if it is only met on a replica set.
func metAt(a action, before, after world) string {
	tail, m := before.members[before.leader].tail, after.note.message
	read := m.op == opRead || m.op == opCheck
	switch {
	case a.kind == doElect && a.index > 0:
		return "elected, with commands that were not committed"
	case a.kind == doElect && len(tail) > 0:
		return "elected, without some"
	case a.kind == doStepDown && len(before.members[a.client].tail) > 0:
		return "rolled back"
	case a.kind == doCommit && tail[0].orphan:
		return "committed for the old leader's client"
	case a.kind != doPrompt:
		return ""
	case m.linear && before.clients[m.from].last.finds(after.doc):
		return "a linearizable read shows it"
	case m.linear:
		return "a linearizable read does not show it"
	case read && before.members[a.at].known != before.doc:
		return "an old majority read"
	case !read && int(a.at) != before.leader && after.note.fate == "answered":
		return "answered by a deposed primary"
	}
	return ""
}
