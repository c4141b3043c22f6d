package model

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock/proptest/model/interleave"
	"pgregory.net/rapid"
)

// The random searches. The failure of a walk prints its seed and its steps.

// drawRules generates rules of 1 to 4 tags.
func drawRules(t *rapid.T) Rules {
	rules := Rules{}
	tags := []Tag{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "tags")]
	for _, from := range tags {
		rules[from] = map[Tag]Relation{}
		for _, to := range tags {
			kind := Kind(rapid.IntRange(0, 2).Draw(t, string(from+"->"+to)))
			if kind != None {
				rules[from][to] = Relation{kind, rapid.IntRange(0, 2).Draw(t, "allow")}
			}
		}
	}
	return rules
}

// drawConfig generates a world of 2 to 5 clients. Its times are realistic:
// several fences in one tick are rare.
func drawConfig(t *rapid.T) config {
	rules := drawRules(t)
	cfg := config{
		ruleSets: []Rules{rules},
		ttl:      rapid.Int64Range(2, 5).Draw(t, "ttl") * 100, waitTTL: 100 * rapid.Int64Range(1, 3).Draw(t, "waitTTL"),
		tolerance: rapid.Int64Range(0, 2).Draw(t, "tolerance") * 100, tick: 100,
		limits: limits{steps: 20, faults: rapid.IntRange(0, 60).Draw(t, "faults")},
		writes: 3, rounds: 9, tries: true, claims: true, checks: true, handoffs: true,
	}
	for range rapid.IntRange(2, 5).Draw(t, "clients") {
		cfg.tags = append(cfg.tags, rapid.SampledFrom(rules.Tags()).Draw(t, "client"))
	}
	drawEndings(t, &cfg)
	if rapid.IntRange(0, 4).Draw(t, "programs") == 0 { // one program knows its own tag only
		cfg.ruleSets = nil
		for range cfg.tags {
			cfg.ruleSets = append(cfg.ruleSets, rules)
		}
		own := cfg.tags[0]
		cfg.ruleSets[0] = Rules{own: {own: rules.Relation(own, own)}}
	}
	return cfg
}

// drawEndings lets the clients of some worlds detach and resume, convert, and
// keep others out for longer.
func drawEndings(t *rapid.T, cfg *config) {
	all := cfg.ruleSets[0].Tags()
	if cfg.tokens = rapid.Bool().Draw(t, "tokens"); cfg.tokens {
		cfg.users, cfg.beats = rapid.IntRange(0, len(cfg.tags)-1).Draw(t, "users"), 5
		cfg.state = rapid.IntRange(0, 3).Draw(t, "resumes demand a state") == 0
	}
	if rapid.Bool().Draw(t, "conversions") {
		cfg.lower, cfg.lowers = map[Tag]Tag{}, 3
		for i, tag := range all {
			cfg.lower[tag] = all[(i+1)%len(all)]
		}
	}
	cfg.takes = rapid.IntRange(0, 3).Draw(t, "takes over") == 0
	if rapid.IntRange(0, 3).Draw(t, "holds") == 0 {
		cfg.hold = rapid.Int64Range(1, 8).Draw(t, "hold") * 100
	}
}

// variations are the worlds of the random walks. If the document is deleted and made again, leases are lost, fencing
// tokens go on increasing, and guards work. If outside writers write the lock, nothing crashes, and the verdicts of
// updates are right if they can be (rule 18).
var variations = map[string]func(*config){
	"alone":             func(*config) {},
	"deletion":          func(cfg *config) { cfg.outside, cfg.outsideWrites, cfg.steps = deletes, 10, 0 }, // the clock may not step back either
	"a replica set":     replicaSet,
	"a sharded cluster": func(cfg *config) { replicaSet(cfg); cfg.routers = true },
	"erasure":           func(cfg *config) { cfg.outside, cfg.outsideWrites = erases, 10 },
}

// replicaSet has three members, and the clock of one is ahead by the tolerance.
func replicaSet(cfg *config) {
	cfg.members, cfg.elections, cfg.clocks = 3, 9, []int64{0, cfg.tolerance}
}

// TestRandomWalk checks long runs for all properties, and that they meet what they are for. The long proof draws new
// seeds.
func TestRandomWalk(t *testing.T) {
	walks, steps, first := interleave.Budget(200, 10_000), interleave.Pick(80, 50), 0
	if interleave.Long() {
		first = rand.IntN(1 << 40)
	}
	for name, more := range variations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := map[string]int{}
			for seed := first; seed < first+walks; seed++ {
				w, trace := wander(seed, Without{}, steps, func(cfg *config) {
					more(cfg)
					cfg.batches, cfg.breaks = true, 2*(seed%3/2)
					cfg.deletes = cfg.outside == nobody && cfg.hold == 0 && seed%8 == 3
				}, func(what string) { seen[what]++ })
				if w.broken.Property != "" {
					t.Fatalf("seed %d: %v\n%s", seed, w.broken, strings.Join(space(w.cfg).Replay(trace), "\n"))
				}
			}
			t.Logf("%d walks of %d steps, from seed %d on, met %v", walks, steps, first, seen)
			for _, what := range mustMeet[name] {
				if seen[what] == 0 && (interleave.Proof() || name != "alone") {
					t.Errorf("%s: never", what)
				}
			}
		})
	}
}

// mustMeet is what the walks meet, those of a single server in the proof.
var mustMeet = map[string][]string{
	"alone": {
		"handoff: granted", "handoff: conflict", "handoff: not applied", "handoff: granted, with an update",
		"handoff: waiting", // to a waiter that a late acquire has entered
		"handoff to one that waits: granted", "handoff to one that waits: waiting", "handoff to one that waits: lost",
		"compare-and-set handoff: granted, with an update", "compare-and-set handoff: not applied, with an update",
		"given up",
		"detach: detached", "detach: lost", "resume: granted", "resume: granted, expired", "resume: granted, from a handle",
		"resume: granted, while its detach has no answer", "resume: lost",
		"resume: not found", "touch: renewed", "touch: lost", "touch: not found", "convert: granted", "convert: conflict", "convert: lost",
		"take-over: granted", "take-over: conflict",
		"release: an entry is left", "write-and-release: an entry is left", "handoff: an entry is left",
	},
	"a replica set": {
		"elected, with commands that were not committed", "elected, without some", "rolled back", "committed for the old leader's client",
		"answered by a deposed primary", "an old majority read", "a linearizable read shows it", "a linearizable read does not show it",
	},
}

// wander is one random walk in a generated world with something more. With an odd seed, every step is equally likely.
// What happens is told to met.
func wander(seed int, without Without, steps int, more func(*config), met func(what string)) (world, []action) {
	cfg := with(rapid.Custom(drawConfig).Example(seed), more)
	cfg.protocol.Without = without
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	w := newWorld(&cfg)
	var trace []action
	for range steps {
		before, actions := w, w.actions()
		if seed%2 == 0 {
			actions = ofOneKind(rng, actions)
		}
		a := actions[rng.IntN(len(actions))]
		w, trace = w.step(a), append(trace, a)
		if w.broken.Property != "" {
			break
		}
		for what, is := range happened(a, &before, &w) {
			if is {
				met(what)
			}
		}
	}
	return w, trace
}

// ofOneKind draws the kind of a step, often an attempt without a fault.
func ofOneKind(rng *rand.Rand, actions []action) (some []action) {
	for len(some) == 0 {
		k := kind(rng.IntN(int(doLearn) + 4))
		if k > doLearn {
			k = doPrompt
		}
		some = slices.DeleteFunc(slices.Clone(actions), func(a action) bool { return a.kind != k })
	}
	return some
}

// happened names what a step may have been, and whether it was.
func happened(a action, before, after *world) map[string]bool {
	m, tail := after.note.message, before.members[before.leader].tail
	ran := m != (message{}) && a.kind != doDelay && a.kind != doParsed
	read, resumed := m.op.reads(), ran && m.op == opResume
	e, there := before.doc.Keyed(Token{m.lease.Tag, m.key})
	_, left := after.doc.Find(m.lease.Tag, leftBy(m.lease.ID))
	text := m.op.String()
	if m.waits {
		text += " to one that waits"
	}
	text += ": " + string(after.note.outcome)
	if m.u != 0 && m.handsOver() {
		text += ", with an update"
	}
	return map[string]bool{
		text:               ran,
		text + ", expired": resumed && there && !e.Live(before.now()),
		text + ", while its detach has no answer":        resumed && slices.ContainsFunc(before.clients, func(c client) bool { return c.phase == detaching && c.key == c.id && c.key == m.key }),
		text + ", from a handle":                         resumed && there && e.Live(before.now()) && !e.Detached,
		m.op.String() + ": an entry is left":             ran && m.op.releases() && left && before.doc != after.doc,
		"given up":                                       a.kind == doQuit,
		"elected, with commands that were not committed": a.kind == doElect && a.index > 0,
		"elected, without some":                          a.kind == doElect && int(a.index) < len(tail),
		"rolled back":                                    a.kind == doStepDown && len(before.members[a.client].tail) > 0,
		"committed for the old leader's client":          a.kind == doCommit && tail[0].orphan,
		"a linearizable read shows it":                   a.kind == doPrompt && m.linear && before.clients[m.from].last.finds(after.doc),
		"a linearizable read does not show it":           a.kind == doPrompt && m.linear && !before.clients[m.from].last.finds(after.doc),
		"an old majority read":                           a.kind == doPrompt && read && !m.linear && before.members[a.at].known != before.doc,
		"answered by a deposed primary":                  a.kind == doPrompt && !read && int(a.at) != before.leader && after.note.fate == "answered",
	}
}
