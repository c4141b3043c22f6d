package model

import "testing"

// Each row of TestRules leaves out a part of one rule of the protocol and shows that
// the search notices: it prints the shortest trace to the violation. With the rule,
// the same search to the same depth finds nothing. The searches of
// exhaustive_test.go test all rules much further. traces_test.go has the rules
// that need many steps, or several documents.
//
// Rule 21 (sharing an entry in one process) is not in the model: it concerns no
// command.

// notice expects that the search finds a violation of the property without the
// rule: the consequence, and not its first sign. With the rule it finds none of any. With the
// linearizable reads of rule 27 it then goes deeper, in the proof through the whole world.
func notice(t *testing.T, cfg config, without Without, property string) {
	t.Helper()
	broken := cfg
	broken.only, broken.protocol.Without = []string{property}, without
	most := pick(10_000, 4_000_000, 4_000_000)
	r := search{cfg: broken, depth: 20, maxStates: most}.run()
	if r.broken == nil && searchFor == "" && r.states >= most {
		t.Skipf("the proof finds it: %v", r)
	}
	if r.broken == nil {
		t.Fatalf("not noticed: %v", r)
	}
	t.Logf("%d states to find it: %v", r.states, r)
	depth := min(r.depth+1, pick(4, 7, 7))
	if without.LinearizableRead {
		depth = pick(r.depth+2, 99, 99) // the read is one step more
	}
	whole := search{cfg: cfg, depth: depth}.run()
	t.Logf("with the rule: %d states to depth %d, all of them: %v", whole.states, whole.depth, whole.complete)
	if whole.broken != nil || !whole.complete && depth == 99 {
		t.Errorf("with the rule: %v", whole)
	}
}

// Relations for the traces.
var (
	exclusive = Rules{"a": {"a": {Cooperative, 0}}}
	queue     = Rules{"a": {"a": {Assertive, 0}}}
	// b is granted beside a, and a respects b; a queues for itself.
	ignored = Rules{"a": {"a": {Assertive, 0}, "b": {Cooperative, 0}}, "b": {}}
	// Each tag waits for the other.
	mutual = Rules{"a": {"b": {Assertive, 0}}, "b": {"a": {Assertive, 0}}}
	// a is refused because of b; b waits for a.
	readers = Rules{"a": {"b": {Cooperative, 0}}, "b": {"a": {Assertive, 0}, "b": {Cooperative, 0}}}
	// The same, but for b beside b.
	beside = Rules{"a": {"b": {Cooperative, 0}}, "b": {"a": {Assertive, 0}}}
	// Writers refuse readers and each other; readers refuse writers.
	writers = Rules{"a": {"a": {Cooperative, 0}, "b": {Cooperative, 0}}, "b": {"a": {Cooperative, 0}}}
	// What a becomes is refused because of c.
	refused = Rules{"a": {"a": {Cooperative, 0}}, "b": {"c": {Cooperative, 0}}, "c": {}}
)

// plain is a world whose clients only acquire, confirm, renew and release.
func plain(faults int, rules Rules, tags ...Tag) config {
	cfg := base(rules, tags...)
	cfg.faults, cfg.writes, cfg.steps, cfg.handoffs = faults, 0, 0, false
	return cfg
}

// with is a world with something more.
func with(cfg config, more func(*config)) config { more(&cfg); return cfg }

// saving lets the clients of a world write.
func saving(cfg config) config { cfg.writes = 1; return cfg }

// keeping has the acquires of a world keep others out for some time.
func keeping(time int64, cfg config) config { cfg.hold = time; return cfg }

// set is a world on a replica set of two members (those that only vote are left out), of which the other one is
// elected at some time.
func set(cfg config) config { cfg.members, cfg.elections = 2, 1; return cfg }

// programs is a world in which each client has rules of its own.
func programs(cfg config, each ...Rules) config { cfg.ruleSets = each; return cfg }

// handing is a world in which clients hand over.
func handing(faults int, rules Rules, tags ...Tag) config {
	return with(plain(faults, rules, tags...), func(cfg *config) { cfg.handoffs = true })
}

// tokens is a world in which clients detach, and the last ones only resume.
func tokens(users, faults int, rules Rules, tags ...Tag) config {
	return with(plain(faults, rules, tags...), func(cfg *config) { cfg.tokens, cfg.users = true, users })
}

// lowers is a world in which a downgrades to b.
func lowers(faults int, rules Rules, tags ...Tag) config {
	return with(plain(faults, rules, tags...), func(cfg *config) { cfg.lower, cfg.lowers = map[Tag]Tag{"a": "b"}, 2 })
}

func TestRules(t *testing.T) {
	stepping := with(plain(2, exclusive, "a", "a"), func(cfg *config) { cfg.steps = 1 })
	looking := with(plain(0, exclusive, "a", "a"), func(cfg *config) { cfg.checks = true })
	erasing := with(saving(plain(1, exclusive, "a")), func(cfg *config) { cfg.outside, cfg.outsideWrites, cfg.patience = erases, 1, 0 })
	lonely, newer := Rules{"b": {"b": {Cooperative, 0}}}, Rules{"a": {"a": {Assertive, 0}}, "b": {}}
	sets := saving(handing(1, exclusive, "a", "a", "a"))
	two, three := tokens(2, 0, exclusive, "a", "a", "a"), tokens(2, 1, exclusive, "a", "a", "a")
	stranger := tokens(2, 0, exclusive, "a", "a", "a", "a")
	oneHandle := Without{NewIDAtResume: true, NewFenceAtResume: true, ResumeUnsetsNumber: true}
	resumedSets := with(saving(tokens(1, 0, exclusive, "a", "a", "a")), func(cfg *config) { cfg.handoffs, cfg.rounds = true, 2 })
	one := plain(0, exclusive, "a")
	deleting := with(one, func(cfg *config) { cfg.deletes = true })
	claiming := with(one, func(cfg *config) { cfg.faults, cfg.tries = 1, true })
	beating := with(tokens(1, 0, exclusive, "a", "a"), func(cfg *config) { cfg.beats = 1 })
	missing := func(cfg *config) { cfg.missing, cfg.outside, cfg.outsideWrites = true, deletes, 1 }
	trusting := Without{LinearizableRead: true} // what found nothing counts at once, or after a majority read
	for _, c := range []struct {
		rule     string
		world    config
		without  Without
		property string
	}{
		{"01, a write matches the fence", saving(plain(1, exclusive, "a", "a")), Without{FenceInWrite: true}, "presence"},
		{"01, a handoff", handing(1, exclusive, "a", "a", "a"), Without{FenceInHandoff: true}, "presence"},
		{"01, a renewal", stepping, Without{FenceInRenew: true}, "validity"},
		{"02, an extension is a maximum", plain(1, exclusive, "a", "a"), Without{Maximum: true}, "validity"},
		{"03, a repeat extends", plain(1, exclusive, "a", "a"), Without{RepeatExtends: true}, "validity"},
		{"04, validity counts from the send", plain(1, exclusive, "a", "a"), Without{AnchorAtSend: true}, "validity"},
		{"05, grants prune", saving(plain(0, exclusive, "a", "a")), Without{Pruning: true}, "presence"},
		{"06, a confirm is blocked by cooperative relations", plain(0, ignored, "a", "a", "b"), Without{CooperativeBlocks: true}, "exclusion"},
		{"07, a confirm never creates", plain(1, queue, "a", "a"), Without{ConfirmNeverCreates: true}, "leak"},
		{"07, nor accepts another seq then", plain(0, queue, "a", "a", "a"), Without{ConfirmNeverCreates: true, TicketSeq: true}, "queue"},
		{"07, nor of a late acquire", plain(1, queue, "a", "a", "a"), Without{TicketSeq: true}, "queue"},
		{"08, unknown tags refuse", programs(plain(0, nil, "a", "b"), exclusive, lonely), Without{UnknownRefuses: true}, "exclusion"},
		{"09, unknown tags block a confirm", programs(plain(0, nil, "a", "a", "b"), queue, queue, newer), Without{UnknownBlocks: true}, "exclusion"},
		{"10, one waits for those that hold or came before", plain(0, mutual, "a", "b", "a"), Without{HeldOrEarlier: true}, "queue"},
		{"11, joins raise the fence", saving(handing(0, beside, "a", "a", "b")), Without{JoinRaisesFence: true}, "exclusion"},
		{"12, a successor asks by the same id", handing(1, exclusive, "a", "a"), Without{SuccessorAsksBySameID: true}, "leak"},
		{"13, validity ends at the send", plain(1, exclusive, "a", "a"), Without{ValidityEndsAtSend: true}, "validity"},
		{"14, writes are numbered", saving(plain(1, exclusive, "a")), Without{Numbering: true}, "once"},
		{"15, a handoff releases, whether the successor is granted or not", handing(0, queue, "a", "a", "a"), Without{ReleaseAnyway: true}, "handoff"},
		{"15, and leaves nothing of a successor that isn't", handing(0, queue, "a", "a", "a"), Without{SuccessorTries: true}, "frame"},
		{"15, and is followed by a release where it finds nothing", handing(1, exclusive, "a", "a", "a"), Without{ReleaseFollows: true}, "leak"},
		{"16, a waiting successor is never made again", handing(1, queue, "a", "a", "a"), Without{WaitingMustBeThere: true}, "leak"},
		{"16, and keeps its place", handing(1, queue, "a", "a", "a"), Without{WaitingKeepsPlace: true}, "frame"},
		{"17, compare-and-set compares the fence", saving(handing(0, readers, "a", "a", "b")), Without{SetComparesFence: true}, "exclusion"},
		{"17, is sent where the grant was alone", saving(handing(0, queue, "a", "a", "a", "a")), Without{SetWhereAlone: true}, "exclusion"},
		{"17, inherits the validity", sets, Without{InheritedValidity: true}, "validity"},
		{"17, unsets the number", sets, Without{SetUnsetsNumber: true}, "once"},
		{"17, pushes the id to done", sets, Without{SetPushesDone: true}, "once"},
		{"17, has its verdict from done", sets, Without{VerdictFromDone: true}, "once"},
		{"18, absence needs a witness", erasing, Without{DoneNeedsWitness: true}, "once"},
		{"20, a read is valid for the rest", looking, Without{RemainingFromExpiry: true}, "validity"},
		{"23, a detach matches the fence", tokens(0, 1, exclusive, "a", "a"), Without{FenceInDetach: true}, "presence"},
		{"23, extends", tokens(1, 0, exclusive, "a", "a"), Without{DetachExtends: true}, "extended"},
		{"23, ends the validity at its send", tokens(1, 1, exclusive, "a", "a", "a"), Without{ValidityEndsAtSend: true}, "validity"},
		{"23, a resume makes a handle", saving(two), oneHandle, "once"}, // two tabs by one id: both number their write 1
		{"23, gives a new id", saving(three), Without{NewIDAtResume: true}, "once"},
		{"23, gives a new fence", two, Without{NewFenceAtResume: true}, "fences"},
		{"23, raises lock.fence", two, Without{ResumeRaisesFence: true}, "fences"},
		{"23, unsets the number", saving(two), Without{ResumeUnsetsNumber: true}, "once"},
		{"23, holds others out for an earlier handle", stranger, Without{TakeoverHoldsOut: true}, "validity"},
		{"23, whatever releases the lock", stranger, Without{HoldsOut: true}, "validity"},
		{"23, ends the detached state", stranger, Without{ResumeAttaches: true}, "validity"},
		{"23, leaves the release to the last handle", three, Without{KeyNeedsFence: true}, "last"},
		{"23, compare-and-set unsets the key", resumedSets, Without{SetUnsetsKey: true}, "token"},
		{"23, and is not sent before the lease's time", resumedSets, Without{SetWithoutHold: true}, "validity"},
		{"24, a downgrade matches the fence", lowers(1, writers, "a", "a"), Without{FenceInDowngrade: true}, "presence"},
		{"24, is judged", lowers(0, refused, "a", "c"), Without{DowngradeIsJudged: true}, "exclusion"},
		{"24, changes nothing when refused", lowers(0, readers, "a", "b"), Without{RefusalKeeps: true}, "downgrade"},
		{"24, is not executed after a refusal", lowers(1, refused, "a", "a", "c"), Without{DowngradeIsNumbered: true}, "validity"},
		{"24, ends the validity at its send", lowers(1, writers, "a", "b"), Without{ValidityEndsAtSend: true}, "validity"},
		{"24, not before the old tag's time", keeping(4, lowers(0, writers, "a", "b")), Without{DowngradeHoldsOut: true}, "kept"},
		{"24, is cleaned up from the old id on", lowers(1, writers, "a", "b"), Without{OldIDFirst: true}, "leak"},
		{"25, a release leaves an entry", keeping(4, plain(0, exclusive, "a", "a")), Without{HoldsOut: true}, "kept"},
		{"25, under a new id", keeping(4, plain(1, exclusive, "a", "a")), Without{NewIDAtHold: true}, "kept"},
		{"25, without the key", keeping(4, tokens(1, 0, exclusive, "a", "a")), Without{HoldDropsKey: true}, "kept"},
		{"25, for a time that counts from the grant", keeping(2, plain(1, exclusive, "a", "a")), Without{HoldFromGrant: true}, "kept"},
		{"27, a release returns nil", set(plain(1, exclusive, "a")), trusting, "release: nil"},
		{"27, or says lost", set(one), trusting, "release: lost"},
		{"27, also of what it has ended itself", set(tokens(1, 1, exclusive, "a", "a")), trusting, "release: taken"},
		{"27, a delete returns nil", set(with(with(deleting, faulty(1)), missing)), trusting, "delete: nil"},
		{"27, or says lost, too", set(deleting), trusting, "delete: lost"},
		{"27, a renewal", set(one), trusting, "renew: lost"},
		{"27, a check", set(with(one, func(cfg *config) { cfg.checks = true })), trusting, "check: lost"},
		{"27, a write", set(saving(one)), trusting, "write: lost"},
		{"27, a last write", set(saving(one)), trusting, "write-and-release: lost"},
		{"27, a verdict", set(saving(plain(1, exclusive, "a"))), trusting, "once"},
		{"27, a downgrade", set(lowers(0, writers, "a")), trusting, "downgrade: lost"},
		{"27, a detach", set(tokens(0, 0, exclusive, "a")), trusting, "detach: lost"},
		{"27, which throws a good token away", set(tokens(0, 1, exclusive, "a")), trusting, "detach: token thrown away"},
		{"27, a resume", set(tokens(1, 0, exclusive, "a", "a")), trusting, "resume: lost"},
		{"27, a touch", set(beating), trusting, "touch: lost"},
		{"27, a clean-up", set(claiming), trusting, "clean-up: nothing"},
		{"27, an acquire", set(with(one, missing)), trusting, "acquire: no document"},
		// A repeat in the same millisecond is granted by a command that is rolled back.
		{"that servers keep: a command that changes nothing waits for what it has read", set(plain(1, exclusive, "a", "a")), Without{NothingWaits: true}, "validity"},
	} {
		t.Run("rule "+c.rule, func(t *testing.T) {
			t.Parallel()
			notice(t, c.world, c.without, c.property)
		})
	}
}
