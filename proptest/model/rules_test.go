package model

import (
	"math"
	"testing"

	"github.com/doclock/doclock/proptest/model/interleave"
)

// Each row of TestRules leaves out a part of one rule of the protocol and shows that
// the search notices: it prints the shortest trace to the violation. With the rule,
// the same search to the same depth finds nothing. The searches of
// exhaustive_test.go test all rules much further.
//
// Rule 21 (sharing a lease in one process) concerns no command: package shares has it.

// notice expects that the search finds a violation of the property without the
// rule: the consequence, and not its first sign. With the rule it finds none of any. Without the linearizable reads of
// rule 27 it looks for that false word alone. With them it then goes deeper, in the proof through the whole world.
func notice(t *testing.T, cfg config, without Without, property string) {
	t.Helper()
	broken := cfg
	broken.protocol.Without = without
	broken.counts = func(p string) bool {
		sign := p == "honoured" || p == "extended" || p == "shortened"
		return p == property || !without.LinearizableRead && !sign
	}
	most := interleave.Pick(10_000, 4_000_000)
	r := explore(broken, 20, most)
	if r.Broken.Property == "" && !interleave.Proof() && r.States >= most {
		t.Skipf("the proof finds it: %v", r)
	}
	if r.Broken.Property != property {
		t.Fatalf("not noticed by %q: %v", property, r)
	}
	t.Logf("%v", r)
	depth := min(r.Depth+1, interleave.Pick(4, 7))
	if without.LinearizableRead {
		depth = interleave.Pick(r.Depth+2, 99) // the read is one step more
	}
	whole := explore(cfg, depth, math.MaxInt)
	t.Logf("with the rule: %v", whole)
	if whole.Broken.Property != "" || !whole.Complete && depth == 99 {
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

func TestRules(t *testing.T) {
	erasing := func(cfg *config) { cfg.outside, cfg.outsideWrites, cfg.patience = erases, 1, 0 }
	twoWrites := func(cfg *config) { cfg.writes = 2 }
	missing := func(cfg *config) { cfg.missing, cfg.outside, cfg.outsideWrites = true, deletes, 1 }
	inserting := func(cfg *config) { cfg.outside, cfg.outsideWrites, cfg.ttl = deletes, 1, 8 }
	lonely, newer := Rules{"b": {"b": {Cooperative, 0}}}, Rules{"a": {"a": {Assertive, 0}}, "b": {}}
	sets := plain(exclusive, "aaa", faulty(1), saving, handing)
	two := plain(exclusive, "aaa", tokens(2))
	stranger := plain(exclusive, "aaaa", tokens(2))
	oneHandle := Without{NewIDAtResume: true, NewFenceAtResume: true, ResumeUnsetsNumber: true}
	resumedSets := plain(exclusive, "aaa", tokens(1), saving, handing, twice)
	trusting := Without{LinearizableRead: true} // what found nothing counts at once, or after a majority read
	for _, c := range []struct {
		rule     string
		world    config
		without  Without
		property string
	}{
		{"01, a write matches the fence", plain(exclusive, "aa", faulty(1), saving), Without{FenceInWrite: true}, "presence"},
		{"01, a handoff", plain(exclusive, "aaa", faulty(1), handing), Without{FenceInHandoff: true}, "presence"},
		{"01, a renewal", plain(exclusive, "aa", faulty(2), stepping), Without{FenceInRenew: true}, "validity"},
		{"02, an extension is a maximum", plain(exclusive, "aa", faulty(1)), Without{Maximum: true}, "validity"},
		{"03, a repeat extends", plain(exclusive, "aa", faulty(1)), Without{RepeatExtends: true}, "validity"},
		{"04, validity counts from the send", plain(exclusive, "aa", faulty(1)), Without{AnchorAtSend: true}, "validity"},
		{"05, grants prune", plain(exclusive, "aa", saving), Without{Pruning: true}, "presence"},
		{"06, a confirm is blocked by cooperative relations", plain(ignored, "aab"), Without{CooperativeBlocks: true}, "exclusion"},
		{"07, a confirm never creates", plain(queue, "aa", faulty(1)), Without{ConfirmNeverCreates: true}, "leak"},
		{"07, nor accepts another seq then", plain(queue, "aaa"), Without{ConfirmNeverCreates: true, TicketSeq: true}, "queue"},
		{"07, nor of a late acquire", plain(queue, "aaa", faulty(1)), Without{TicketSeq: true}, "queue"},
		{"08, unknown tags refuse", plain(nil, "ab", programs(exclusive, lonely)), Without{UnknownRefuses: true}, "exclusion"},
		{"09, unknown tags block a confirm", plain(nil, "aab", programs(queue, queue, newer)), Without{UnknownBlocks: true}, "exclusion"},
		{"10, one waits for those that hold or came before", plain(mutual, "aba"), Without{HeldOrEarlier: true}, "queue"},
		{"11, joins raise the fence", plain(beside, "aab", saving, handing), Without{JoinRaisesFence: true}, "exclusion"},
		{"12, a successor asks by the same id", plain(exclusive, "aa", faulty(1), handing), Without{SuccessorAsksBySameID: true}, "leak"},
		{"13, validity ends at the send", plain(exclusive, "aa", faulty(1)), Without{ValidityEndsAtSend: true}, "validity"},
		{"14, writes are numbered", plain(exclusive, "a", faulty(1), saving), Without{Numbering: true}, "once"},
		{"14, in the entry", plain(exclusive, "a", faulty(1), saving, twoWrites, brief), Without{NumberInEntry: true}, "once"},
		{"15, a handoff releases, whether the successor is granted or not", plain(queue, "aaa", handing), Without{ReleaseAnyway: true}, "handoff"},
		{"15, and leaves nothing of a successor that isn't", plain(queue, "aaa", handing), Without{SuccessorTries: true}, "frame"},
		{"15, and is followed by a release where it finds nothing", plain(exclusive, "aaa", faulty(1), handing), Without{ReleaseFollows: true}, "leak"},
		{"16, a waiting successor is never made again", plain(queue, "aaa", faulty(1), handing), Without{WaitingMustBeThere: true}, "leak"},
		{"16, and keeps its place", plain(queue, "aaa", faulty(1), handing), Without{WaitingKeepsPlace: true}, "frame"},
		{"17, compare-and-set compares the fence", plain(readers, "aab", saving, handing), Without{SetComparesFence: true}, "exclusion"},
		{"17, is sent where the grant was alone", plain(queue, "aaaa", saving, handing), Without{SetWhereAlone: true}, "exclusion"},
		{"17, inherits the validity", sets, Without{InheritedValidity: true}, "validity"},
		{"17, unsets the number", sets, Without{SetUnsetsNumber: true}, "once"},
		{"17, pushes the id to done", sets, Without{SetPushesDone: true}, "once"},
		{"17, has its verdict from done", sets, Without{VerdictFromDone: true}, "once"},
		{"18, absence needs a witness", plain(exclusive, "a", faulty(1), saving, erasing), Without{DoneNeedsWitness: true}, "once"},
		{"18, where others have ended, too", plain(exclusive, "aa", faulty(1), saving, brief), Without{DoneNeedsWitness: true}, "once"},
		{"18, that is there still", plain(exclusive, "aa", faulty(1), saving, twice, brief), Without{WitnessIsThere: true}, "once"},
		{"18, and there is none where done was empty", plain(exclusive, "aa", faulty(1), saving, erasing), Without{EmptyProvesNothing: true}, "once"},
		{"19, an id is never used again", plain(exclusive, "a", faulty(1), twice), Without{IDsAreNew: true}, "renew: taken"},
		{"20, a read is valid for the rest", plain(exclusive, "aa", checking), Without{RemainingFromExpiry: true}, "validity"},
		{"20, and so is the read after a batch", plain(exclusive, "aa", batching), Without{RemainingFromExpiry: true}, "validity"},
		{"23, a detach matches the fence", plain(exclusive, "aa", faulty(1), tokens(0)), Without{FenceInDetach: true}, "presence"},
		{"23, extends", plain(exclusive, "aa", tokens(1)), Without{DetachExtends: true}, "extended"},
		{"23, ends the validity at its send", plain(exclusive, "aaa", faulty(1), tokens(1)), Without{ValidityEndsAtSend: true}, "validity"},
		{"23, leaves its outcome unknown where a repeat finds nothing", plain(exclusive, "aa", faulty(1), tokens(1)), Without{DetachDoubts: true}, "detach: taken"},
		{"23, a resume makes a handle", with(two, saving), oneHandle, "once"}, // two tabs by one id: both number their write 1
		{"23, gives a new id", with(two, faulty(1), saving), Without{NewIDAtResume: true}, "once"},
		{"23, gives a new fence", two, Without{NewFenceAtResume: true}, "fences"},
		{"23, raises lock.fence", two, Without{ResumeRaisesFence: true}, "fences"},
		{"23, unsets the number", with(two, saving), Without{ResumeUnsetsNumber: true}, "once"},
		{"23, holds others out for an earlier handle", stranger, Without{EarlierHoldsOut: true}, "validity"},
		{"23, whatever releases the lock", stranger, Without{HoldsOut: true}, "validity"},
		{"23, ends the detached state", stranger, Without{ResumeAttaches: true}, "validity"},
		{"23, leaves the release to the last handle", with(two, faulty(1)), Without{KeyNeedsFence: true}, "last"},
		{"23, a filter that misses the document says nothing of the token", with(two, saving, stating), Without{MissIsNoLoss: true}, "resume: lost"},
		{"23, deletes after the time of an earlier handle", plain(exclusive, "aaaa", tokens(2), deleting, inserting), Without{DeleteHoldsOut: true}, "validity"},
		{"23, a repeat finds itself, whatever the filter demands", plain(Rules{"a": {}}, "aaa", tokens(1), faulty(1), saving, stating), Without{RepeatFindsItself: true}, "resume: not found"},
		{"23, compare-and-set unsets the key", resumedSets, Without{SetUnsetsKey: true}, "token"},
		{"23, and is not sent before the lease's time", resumedSets, Without{SetWithoutHold: true}, "validity"},
		{"24, a conversion matches the fence", plain(writers, "aa", faulty(1), converting), Without{FenceInConversion: true}, "presence"},
		{"24, is judged", plain(refused, "ac", converting), Without{ConversionIsJudged: true}, "exclusion"},
		{"24, beside held entries only", plain(readers, "ab", converting), Without{BesideHeld: true}, "kept back"},
		{"24, changes nothing when refused", plain(refused, "ac", converting), Without{RefusalKeeps: true}, "convert"},
		{"24, is not executed after a refusal", plain(refused, "aac", faulty(1), converting), Without{ConversionIsNumbered: true}, "validity"},
		{"24, ends the validity at its send", plain(writers, "ab", faulty(1), converting), Without{ValidityEndsAtSend: true}, "validity"},
		{"24, not before the old tag's time", plain(writers, "ab", converting, keeping(4)), Without{ConversionHoldsOut: true}, "kept"},
		{"24, is cleaned up from the old id on", plain(writers, "ab", faulty(1), converting), Without{OldIDFirst: true}, "leak"},
		{"25, a release leaves an entry", plain(exclusive, "aa", keeping(4)), Without{HoldsOut: true}, "kept"},
		{"25, under a new id", plain(exclusive, "aa", faulty(1), keeping(4)), Without{NewIDAtHold: true}, "kept"},
		{"25, without the key", plain(exclusive, "aa", tokens(1), keeping(4)), Without{HoldDropsKey: true}, "kept"},
		{"25, for a time that counts from the grant", plain(exclusive, "aa", faulty(1), keeping(2)), Without{HoldFromGrant: true}, "kept"},
		{"26, what a look-up finds is no grant", plain(exclusive, "aa", faulty(1), claiming), Without{FoundIsRenewed: true}, "validity"},
		{"27, a claim's look-up", plain(exclusive, "a", set, faulty(1), claiming), trusting, "clean-up: nothing"},
		{"27, the read after a batch", plain(exclusive, "a", set, faulty(1), batching), trusting, "clean-up: nothing"},
		{"27, a release returns nil", plain(exclusive, "a", set, faulty(1)), trusting, "release: nil"},
		{"27, or says lost", plain(exclusive, "a", set), trusting, "release: lost"},
		{"27, also of what it has ended itself", plain(exclusive, "aa", set, faulty(1), tokens(1)), trusting, "release: taken"},
		{"27, a delete returns nil", plain(exclusive, "a", set, faulty(1), deleting, missing), trusting, "delete: nil"},
		{"27, or says lost, too", plain(exclusive, "a", set, deleting), trusting, "delete: lost"},
		{"27, a renewal", plain(exclusive, "a", set), trusting, "renew: lost"},
		{"27, a check", plain(exclusive, "a", set, checking), trusting, "check: lost"},
		{"27, a write", plain(exclusive, "a", set, saving), trusting, "write: lost"},
		{"27, a last write", plain(exclusive, "a", set, saving), trusting, "write-and-release: lost"},
		{"27, a verdict", plain(exclusive, "a", set, faulty(1), saving, twice), trusting, "once"},
		{"27, a conversion", plain(writers, "a", set, converting), trusting, "convert: lost"},
		{"27, a detach", plain(exclusive, "a", set, tokens(0)), trusting, "detach: lost"},
		{"27, a resume", plain(exclusive, "aa", set, tokens(1)), trusting, "resume: lost"},
		{"27, a touch", plain(exclusive, "aa", set, tokens(1), beating), trusting, "touch: lost"},
		{"27, a clean-up", plain(exclusive, "a", set, faulty(1), trying), trusting, "clean-up: nothing"},
		{"27, an acquire", plain(exclusive, "a", set, missing), trusting, "acquire: no document"},
		{"24, a take-over matches the fence", plain(queue, "aaa", faulty(1), taking), Without{FenceInTakeOver: true}, "frame"},
		{"24, a take-over is judged", plain(writers, "abb", taking), Without{TakeOverIsJudged: true}, "exclusion"},
		{"24, is granted, or writes nothing", plain(writers, "abb", taking), Without{TakeOverOrNothing: true}, "taken"},
		{"24, nor waits", plain(queue, "aaa", taking), Without{TakeOverOrNothing: true}, "taken"},
		{"24, is judged beside held entries only", plain(queue, "aaa", taking), Without{BesideHeld: true}, "kept back"},
		{"24, if it ends a live one", plain(queue, "aaa", taking), Without{ExpiredEndsNothing: true}, "exclusion"},
		{"24, leaves the fence of what it ends", plain(exclusive, "aa", faulty(1), taking), Without{TakeOverLeavesBroken: true}, "release: nil, too late"},
		{"24, may have ended something after an attempt of unknown outcome", plain(Rules{"a": {"b": {Cooperative, 0}, "a": {Cooperative, 0}}, "b": {}}, "aab", faulty(1), taking), Without{TakeOverDoubts: true}, "taken"},
		// An operator has removed the entry of a release whose request was lost.
		{"of unknown outcomes: what was broken is no release", plain(exclusive, "aa", faulty(1), breaking), Without{BrokenIsRead: true}, "release: nil, too late"},
		{"of unknown outcomes: what was deleted after a take-over is no release", plain(exclusive, "aa", faulty(1), taking, deleting), Without{GoneIsDoubted: true}, "release: nil, too late"},
		// A repeat in the same millisecond is granted by a command that is rolled back.
		{"that servers keep: a command that changes nothing waits for what it has read", plain(exclusive, "aa", set, faulty(1)), Without{NothingWaits: true}, "validity"},
	} {
		t.Run("rule "+c.rule, func(t *testing.T) {
			t.Parallel()
			notice(t, c.world, c.without, c.property)
		})
	}
}
