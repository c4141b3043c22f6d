package model

import "testing"

// Each test of this file leaves out one rule of the protocol and shows that the
// search notices: it prints the shortest trace to the violation. With the rule,
// the same search to the same depth finds nothing. The searches of
// exhaustive_test.go test all rules much further. traces_test.go has the rules
// that need many steps, or several documents.
//
// Rule 21 (sharing an entry in one process) is not in the model: it concerns no
// command.

// notice expects that the search finds a violation of the property without the
// rule, and none with it.
func notice(t *testing.T, cfg config, without Without, property string) {
	t.Helper()
	cfg.lenient = true // the consequence, not its first sign
	broken := cfg
	broken.protocol.Without = without
	r := search{cfg: broken, depth: 20, maxStates: 4_000_000}.run()
	if r.broken == nil {
		t.Fatalf("not noticed: %v", r)
	}
	if r.broken.property != property {
		t.Errorf("noticed by %q, not by %q", r.broken.property, property)
	}
	t.Logf("%d states to find it: %v", r.states, r)
	if whole := (search{cfg: cfg, depth: min(r.depth+1, 7)}).run(); whole.broken != nil {
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
)

// plain is a world whose clients only acquire, confirm, renew and release.
func plain(faults int, rules Rules, tags ...Tag) config {
	cfg := base(rules, tags...)
	cfg.faults, cfg.writes, cfg.steps, cfg.handoffs = faults, 0, 0, false
	return cfg
}

func TestRule01GuardMatchesIDAndFence(t *testing.T) {
	t.Run("write", func(t *testing.T) {
		cfg := plain(1, exclusive, "a", "a")
		cfg.writes = 1
		notice(t, cfg, Without{FenceInWrite: true}, "presence")
	})
	t.Run("handoff", func(t *testing.T) {
		cfg := plain(1, exclusive, "a", "a", "a")
		cfg.handoffs = true
		notice(t, cfg, Without{FenceInHandoff: true}, "presence")
	})
	t.Run("renew", func(t *testing.T) {
		cfg := plain(2, exclusive, "a", "a")
		cfg.steps = 1
		notice(t, cfg, Without{FenceInRenew: true}, "validity")
	})
}

func TestRule02ExtendIsMaximum(t *testing.T) {
	notice(t, plain(1, exclusive, "a", "a"), Without{Maximum: true}, "validity")
}

func TestRule03RepeatExtends(t *testing.T) {
	notice(t, plain(1, exclusive, "a", "a"), Without{RepeatExtends: true}, "validity")
}

func TestRule04AnchorAtSend(t *testing.T) {
	notice(t, plain(1, exclusive, "a", "a"), Without{AnchorAtSend: true}, "validity")
}

func TestRule05GrantsPrune(t *testing.T) {
	cfg := plain(0, exclusive, "a", "a")
	cfg.writes = 1
	notice(t, cfg, Without{Pruning: true}, "presence")
}

func TestRule06ConfirmBlockedByCooperative(t *testing.T) {
	notice(t, plain(0, ignored, "a", "a", "b"), Without{CooperativeBlocks: true}, "exclusion")
}

func TestRule07ConfirmNeverCreates(t *testing.T) {
	t.Run("creates", func(t *testing.T) {
		notice(t, plain(1, queue, "a", "a"), Without{ConfirmNeverCreates: true}, "leak")
	})
	t.Run("creates, seq", func(t *testing.T) {
		notice(t, plain(0, queue, "a", "a", "a"), Without{ConfirmNeverCreates: true, TicketSeq: true}, "queue")
	})
	t.Run("seq", func(t *testing.T) {
		notice(t, plain(1, queue, "a", "a", "a"), Without{TicketSeq: true}, "queue")
	})
}

func TestRule08UnknownTagsRefuse(t *testing.T) {
	cfg := plain(0, nil, "a", "b")
	cfg.ruleSets = []Rules{exclusive, {"b": {"b": {Cooperative, 0}}}}
	notice(t, cfg, Without{UnknownRefuses: true}, "exclusion")
}

func TestRule09UnknownTagsBlockConfirm(t *testing.T) {
	cfg := plain(0, nil, "a", "a", "b")
	newer := Rules{"a": {"a": {Assertive, 0}}, "b": {}}
	cfg.ruleSets = []Rules{queue, queue, newer}
	notice(t, cfg, Without{UnknownBlocks: true}, "exclusion")
}

func TestRule10WaitForHeldOrEarlier(t *testing.T) {
	notice(t, plain(0, mutual, "a", "b", "a"), Without{HeldOrEarlier: true}, "queue")
}

func TestRule11JoinsRaiseFence(t *testing.T) {
	cfg := plain(0, readers, "a", "a", "b")
	cfg.ruleSets[0] = Rules{"a": {"b": {Cooperative, 0}}, "b": {"a": {Assertive, 0}}}
	cfg.handoffs, cfg.writes = true, 1
	notice(t, cfg, Without{JoinRaisesFence: true}, "exclusion")
}

// handing is a world in which clients of one tag hand over, with and without
// updates.
func handing(faults int, rules Rules, tags ...Tag) config {
	cfg := plain(faults, rules, tags...)
	cfg.handoffs, cfg.writes = true, 1
	return cfg
}

func TestRule12SuccessorAsksByTheSameID(t *testing.T) {
	cfg := handing(1, exclusive, "a", "a")
	cfg.writes = 0
	notice(t, cfg, Without{SuccessorAsksBySameID: true}, "leak")
}

func TestRule13ValidityEndsAtSend(t *testing.T) {
	notice(t, plain(1, exclusive, "a", "a"), Without{ValidityEndsAtSend: true}, "validity")
}

func TestRule14WritesAreNumbered(t *testing.T) {
	cfg := plain(1, exclusive, "a")
	cfg.writes = 1
	notice(t, cfg, Without{Numbering: true}, "once")
}

func TestRule15HandoffReleases(t *testing.T) {
	cfg := handing(0, queue, "a", "a", "a")
	cfg.writes = 0
	t.Run("whether the successor is granted or not", func(t *testing.T) {
		notice(t, cfg, Without{ReleaseAnyway: true}, "handoff")
	})
	t.Run("and leaves nothing of a successor that isn't", func(t *testing.T) {
		notice(t, cfg, Without{SuccessorTries: true}, "frame")
	})
	t.Run("and is followed by a release where it finds nothing", func(t *testing.T) {
		cfg := handing(1, exclusive, "a", "a", "a")
		cfg.writes = 0
		notice(t, cfg, Without{ReleaseFollows: true}, "leak")
	})
}

func TestRule16WaitingHeirIsConfirmed(t *testing.T) {
	cfg := handing(1, queue, "a", "a", "a")
	cfg.writes = 0
	t.Run("never recreated", func(t *testing.T) {
		notice(t, cfg, Without{WaitingMustBeThere: true}, "leak")
	})
	t.Run("keeps its place", func(t *testing.T) {
		notice(t, cfg, Without{WaitingKeepsPlace: true}, "frame")
	})
}

func TestRule17CompareAndSetHandoff(t *testing.T) {
	cfg := handing(1, exclusive, "a", "a", "a")
	t.Run("compares the fence", func(t *testing.T) {
		notice(t, handing(0, readers, "a", "a", "b"), Without{SetComparesFence: true}, "exclusion")
	})
	t.Run("where the grant was alone", func(t *testing.T) {
		notice(t, handing(0, queue, "a", "a", "a", "a"), Without{SetWhereAlone: true}, "exclusion")
	})
	t.Run("inherits the validity", func(t *testing.T) {
		notice(t, cfg, Without{InheritedValidity: true}, "validity")
	})
	t.Run("unsets the number", func(t *testing.T) {
		notice(t, cfg, Without{SetUnsetsNumber: true}, "once")
	})
	t.Run("pushes the id to done", func(t *testing.T) {
		notice(t, cfg, Without{SetPushesDone: true}, "once")
	})
	t.Run("verdict from done", func(t *testing.T) {
		notice(t, cfg, Without{VerdictFromDone: true}, "once")
	})
}

func TestRule18AbsenceNeedsWitness(t *testing.T) {
	cfg := plain(1, exclusive, "a")
	cfg.writes, cfg.outside, cfg.outsideWrites, cfg.patience = 1, erases, 1, 0
	notice(t, cfg, Without{DoneNeedsWitness: true}, "once")
}

func TestRule20AReadIsValidForTheRest(t *testing.T) {
	cfg := plain(0, exclusive, "a", "a")
	cfg.checks = true
	notice(t, cfg, Without{RemainingFromExpiry: true}, "validity")
}
