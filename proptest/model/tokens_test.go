package model

import "testing"

// Rules 23 to 25: each test leaves out a part of one, as rules_test.go does.

// tokens is a world in which clients detach, and the last ones only resume.
func tokens(users, faults int, rules Rules, tags ...Tag) config {
	cfg := plain(faults, rules, tags...)
	cfg.tokens, cfg.users = true, users
	return cfg
}

// writing lets the clients of a world write.
func saving(cfg config) config { cfg.writes = 1; return cfg }

// lowering is a world in which a downgrades to b.
func lowers(faults int, rules Rules, tags ...Tag) config {
	cfg := plain(faults, rules, tags...)
	cfg.lower, cfg.lowers = map[Tag]Tag{"a": "b"}, 2
	return cfg
}

// keeping is a world whose acquires keep others out for longer than a TTL.
func keeping(faults int, rules Rules, tags ...Tag) config {
	cfg := plain(faults, rules, tags...)
	cfg.hold = 4
	return cfg
}

// writers refuse readers and each other; readers refuse writers.
var writers = Rules{"a": {"a": {Cooperative, 0}, "b": {Cooperative, 0}}, "b": {"a": {Cooperative, 0}}}

func TestRule23Detach(t *testing.T) {
	t.Run("matches the fence", func(t *testing.T) {
		notice(t, tokens(0, 1, exclusive, "a", "a"), Without{FenceInDetach: true}, "presence")
	})
	t.Run("extends", func(t *testing.T) {
		notice(t, tokens(1, 0, exclusive, "a", "a"), Without{DetachExtends: true}, "extended")
	})
	t.Run("ends the validity at its send", func(t *testing.T) {
		notice(t, tokens(1, 1, exclusive, "a", "a", "a"), Without{ValidityEndsAtSend: true}, "validity")
	})
}

func TestRule23Resume(t *testing.T) {
	two := tokens(2, 0, exclusive, "a", "a", "a")
	stranger := tokens(2, 0, exclusive, "a", "a", "a", "a")
	t.Run("makes a handle", func(t *testing.T) { // two tabs by one id: both number their write 1
		shared := Without{NewIDAtResume: true, NewFenceAtResume: true, ResumeUnsetsNumber: true}
		notice(t, saving(two), shared, "once")
	})
	t.Run("gives a new id", func(t *testing.T) {
		cfg := saving(two)
		cfg.faults = 1
		notice(t, cfg, Without{NewIDAtResume: true}, "once")
	})
	t.Run("gives a new fence", func(t *testing.T) {
		notice(t, two, Without{NewFenceAtResume: true}, "fences")
	})
	t.Run("raises lock.fence", func(t *testing.T) {
		notice(t, two, Without{ResumeRaisesFence: true}, "fences")
	})
	t.Run("unsets the number", func(t *testing.T) {
		notice(t, saving(two), Without{ResumeUnsetsNumber: true}, "once")
	})
	t.Run("holds others out for an earlier handle", func(t *testing.T) {
		notice(t, stranger, Without{TakeoverHoldsOut: true}, "validity")
	})
	t.Run("and whatever releases the lock", func(t *testing.T) {
		notice(t, stranger, Without{HoldsOut: true}, "validity")
	})
	t.Run("ends the detached state", func(t *testing.T) {
		notice(t, stranger, Without{ResumeAttaches: true}, "validity")
	})
	t.Run("leaves the release to the last handle", func(t *testing.T) {
		cfg := tokens(2, 1, exclusive, "a", "a", "a")
		notice(t, cfg, Without{KeyNeedsFence: true}, "last")
	})
}

func TestRule23CompareAndSet(t *testing.T) {
	cfg := tokens(1, 0, exclusive, "a", "a", "a")
	cfg.handoffs, cfg.writes, cfg.rounds = true, 1, 2
	t.Run("unsets the key", func(t *testing.T) {
		notice(t, cfg, Without{SetUnsetsKey: true}, "token")
	})
	t.Run("not before the lease's time", func(t *testing.T) {
		notice(t, cfg, Without{SetWithoutHold: true}, "validity")
	})
}

func TestRule24Downgrade(t *testing.T) {
	t.Run("matches the fence", func(t *testing.T) {
		notice(t, lowers(1, writers, "a", "a"), Without{FenceInDowngrade: true}, "presence")
	})
	t.Run("is judged", func(t *testing.T) {
		rules := Rules{"a": {"a": {Cooperative, 0}}, "b": {"c": {Cooperative, 0}}, "c": {}}
		notice(t, lowers(0, rules, "a", "c"), Without{DowngradeIsJudged: true}, "exclusion")
	})
	t.Run("changes nothing when refused", func(t *testing.T) {
		notice(t, lowers(0, readers, "a", "b"), Without{RefusalKeeps: true}, "downgrade")
	})
	t.Run("is not executed after a refusal", func(t *testing.T) {
		rules := Rules{"a": {"a": {Cooperative, 0}}, "b": {"c": {Cooperative, 0}}, "c": {}}
		notice(t, lowers(1, rules, "a", "a", "c"), Without{DowngradeIsNumbered: true}, "validity")
	})
	t.Run("ends the validity at its send", func(t *testing.T) {
		notice(t, lowers(1, writers, "a", "b"), Without{ValidityEndsAtSend: true}, "validity")
	})
	t.Run("not before the old tag's time", func(t *testing.T) {
		cfg := lowers(0, writers, "a", "b")
		cfg.hold = 4
		notice(t, cfg, Without{DowngradeHoldsOut: true}, "kept")
	})
	t.Run("is cleaned up from the old id on", func(t *testing.T) {
		notice(t, lowers(1, writers, "a", "b"), Without{OldIDFirst: true}, "leak")
	})
}

func TestRule25HoldAtLeast(t *testing.T) {
	t.Run("by a release", func(t *testing.T) {
		notice(t, keeping(0, exclusive, "a", "a"), Without{HoldsOut: true}, "kept")
	})
	t.Run("new id", func(t *testing.T) {
		notice(t, keeping(1, exclusive, "a", "a"), Without{NewIDAtHold: true}, "kept")
	})
	t.Run("drops the key", func(t *testing.T) {
		cfg := tokens(1, 0, exclusive, "a", "a")
		cfg.hold = 4
		notice(t, cfg, Without{HoldDropsKey: true}, "kept")
	})
	t.Run("counts from the grant", func(t *testing.T) {
		cfg := keeping(1, exclusive, "a", "a")
		cfg.hold = 2
		notice(t, cfg, Without{HoldFromGrant: true}, "kept")
	})
}
