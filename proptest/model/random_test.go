package model

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// The random searches. -rapid.checks sets the number of runs,
// DOCLOCK_MODEL_STEPS the length of each; rapid prints the seed of a failure
// and shrinks it.

func steps() int {
	if n, err := strconv.Atoi(os.Getenv("DOCLOCK_MODEL_STEPS")); err == nil && n > 0 {
		return n
	}
	return pick(80, 300, 300)
}

// drawRules generates rules of 1 to 4 tags.
func drawRules(t *rapid.T) Rules {
	rules := Rules{}
	tags := tagNames[:rapid.IntRange(1, 4).Draw(t, "tags")]
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
		steps: 20, faults: rapid.IntRange(0, 60).Draw(t, "faults"), crashes: 1,
		writes: 3, rounds: 9, tries: true, checks: true, handoffs: true,
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

// drawEndings lets the clients of some worlds detach and resume, downgrade, and
// keep others out for longer.
func drawEndings(t *rapid.T, cfg *config) {
	all := cfg.ruleSets[0].Tags()
	if cfg.tokens = rapid.Bool().Draw(t, "tokens"); cfg.tokens {
		cfg.users, cfg.beats = rapid.IntRange(0, len(cfg.tags)-1).Draw(t, "users"), 5
	}
	if rapid.Bool().Draw(t, "downgrades") {
		cfg.lower, cfg.lowers = map[Tag]Tag{}, 3
		for i, tag := range all {
			cfg.lower[tag] = all[(i+1)%len(all)]
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "holds") == 0 {
		cfg.hold = rapid.Int64Range(1, 8).Draw(t, "hold") * 100
	}
}

// walk lets a world run at random: it draws first the kind of the step, and
// then one of that kind.
func walk(t *rapid.T, cfg config) {
	w := newWorld(&cfg)
	for range steps() {
		byKind := map[kind][]action{}
		var kinds []kind
		for _, a := range w.actions() {
			if byKind[a.kind] == nil {
				kinds = append(kinds, a.kind)
				if a.kind == doPrompt { // most of the time there is no fault
					kinds = append(kinds, a.kind, a.kind, a.kind)
				}
			}
			byKind[a.kind] = append(byKind[a.kind], a)
		}
		some := byKind[rapid.SampledFrom(kinds).Draw(t, "kind")]
		a := some[rapid.IntRange(0, len(some)-1).Draw(t, "which")]
		w = w.step(a)
		t.Log(w.tell(a))
		if w.broken != nil {
			t.Fatalf("ruleSets %v, clients %v: %v", cfg.ruleSets, cfg.tags, w.broken)
		}
	}
}

// TestRandomWalk checks long runs for all properties. If the document is deleted and made
// again, leases are lost, fencing tokens go on increasing, and guards work. If outside
// writers write the lock, nothing crashes, and the verdicts of updates are right if they
// can be (rule 18).
func TestRandomWalk(t *testing.T) {
	for name, more := range map[string]func(*config){
		"alone":             func(*config) {},
		"deletion":          func(cfg *config) { cfg.outside, cfg.outsideWrites, cfg.steps = deletes, 10, 0 }, // the clock may not step back either
		"a replica set":     replicaSet,
		"a sharded cluster": func(cfg *config) { replicaSet(cfg); cfg.routers = true },
		"erasure":           func(cfg *config) { cfg.outside, cfg.outsideWrites = erases, 10 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { walk(t, with(drawConfig(t), more)) })
		})
	}
}

// replicaSet has three members, and the clock of one is ahead by the tolerance.
func replicaSet(cfg *config) {
	cfg.members, cfg.elections, cfg.clocks = 3, 9, []int64{0, cfg.tolerance}
}

// TestRandomNotices shows that the random walks can fail: without some rule
// they must find a violation. (They do not find renewal by id alone: see the
// search of TestRule01.)
func TestRandomNotices(t *testing.T) {
	rare := map[string]int{"rule 6": 1400, "rule 23, id": 3900} // the first walks, which find nothing, are left out
	for name, without := range map[string]Without{
		"rule 2": {Maximum: true}, "rule 3": {RepeatExtends: true}, "rule 5": {Pruning: true},
		"rule 6": {CooperativeBlocks: true}, "rule 8": {UnknownRefuses: true}, "rule 13": {ValidityEndsAtSend: true},
		"rule 14": {Numbering: true}, "rule 12": {SuccessorAsksBySameID: true}, "rule 15": {ReleaseAnyway: true},
		"rule 16": {WaitingKeepsPlace: true}, "rule 17": {SetComparesFence: true},
		"rule 23, takeover": {TakeoverHoldsOut: true}, "rule 23, id": {NewIDAtResume: true}, "rule 23, key": {KeyNeedsFence: true},
		"rule 24, number": {DowngradeIsNumbered: true}, "rule 24, judged": {DowngradeIsJudged: true},
		"rule 25, remainder": {HoldsOut: true}, "rule 25, id": {NewIDAtHold: true},
		"rule 27": {LinearizableRead: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := rare[name]; seed < 6000; seed++ {
				more := func(*config) {}
				if without.LinearizableRead {
					more = replicaSet
				}
				if w := wander(seed, without, 200, more, nil); w.broken != nil {
					t.Logf("seed %d: %v", seed, w.broken)
					return
				}
			}
			t.Error("not noticed")
		})
	}
}

// TestWander walks without rapid, which prefers small numbers: every action is
// equally likely. Every possible outcome of a handoff, and of the commands on a
// token or a tag, must appear.
func TestWander(t *testing.T) {
	walks, length := pick(80, 3000, 40_000), steps()
	t.Logf("seeds 0 to %d, %d steps each", walks-1, length)
	seen := map[string]int{}
	for seed := range walks {
		w := wander(seed, Without{}, length, func(*config) {}, func(a action, before, after world) {
			seen[handoffOf(a, after.note)]++
			seen[endingOf(a, before, after)]++
		})
		if w.broken != nil {
			t.Fatalf("seed %d: %v", seed, w.broken)
		}
	}
	delete(seen, "")
	t.Logf("outcomes: %v", seen)
	for _, what := range []string{
		"handoff: granted", "handoff: conflict", "handoff: not applied", "handoff: granted, with an update",
		"handoff: waiting", // to a waiter that a late acquire has entered
		"handoff to one that waits: granted", "handoff to one that waits: waiting", "handoff to one that waits: lost",
		"compare-and-set handoff: granted, with an update", "compare-and-set handoff: not applied, with an update",
		"given up",
		"detach: detached", "detach: lost", "resume: granted", "resume: granted, expired", "resume: granted, from a handle", "resume: lost",
		"touch: renewed", "touch: lost", "downgrade: granted", "downgrade: conflict", "downgrade: lost",
		"release: an entry is left", "write-and-release: an entry is left", "handoff: an entry is left",
	} {
		if walks*length >= 900_000 && seen[what] == 0 {
			t.Errorf("%s: never", what)
		}
	}
}

// wander is one random walk in a generated world with something more. Each step is shown to look.
func wander(seed int, without Without, steps int, more func(*config), look func(a action, before, after world)) world {
	cfg := with(rapid.Custom(drawConfig).Example(seed), more)
	cfg.protocol.Without = without
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	w := newWorld(&cfg)
	for range steps {
		actions := w.actions()
		a := actions[rng.IntN(len(actions))]
		before := w
		if w = w.step(a); w.broken != nil {
			break
		}
		if look != nil {
			look(a, before, w)
		}
	}
	return w
}

// endingOf names the outcome of a detach, a resume, a touch or a downgrade in
// the last step, or the release that left an entry, if there was one.
func endingOf(a action, before, after world) string {
	m, text := after.note.message, after.note.message.op.String()
	switch {
	case a.kind == doDelay, a.kind == doParsed, m == (message{}):
		return ""
	case m.op.releases():
		if _, there := after.doc.Find(m.lease.Tag, leftBy(m.lease.ID)); there && before.doc != after.doc {
			return text + ": an entry is left"
		}
		return ""
	case m.op < opDetach:
		return ""
	}
	text += ": " + string(after.note.outcome)
	e, there := before.doc.keyed(Token{m.lease.Tag, m.key})
	switch {
	case m.op != opResume || !there:
	case !e.Live(before.now()):
		text += ", expired"
	case !e.Detached:
		text += ", from a handle"
	}
	return text
}

// handoffOf names the outcome of a handoff in the last step, if there was one.
func handoffOf(a action, n note) string {
	m := n.message
	switch {
	case a.kind == doQuit:
		return "given up"
	case !m.handsOver(), a.kind == doDelay, a.kind == doParsed:
		return ""
	}
	text := m.op.String()
	if m.waits {
		text += " to one that waits"
	}
	text += ": " + string(n.outcome)
	if m.u != 0 {
		text += ", with an update"
	}
	return text
}
