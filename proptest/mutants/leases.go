package mutants

// leases believe too long, or say what isn't so.
var leases = []Mutant{{
	Name: "validity counts from the renewal's reply", Rule: 4,
	File: "internal/lease/renew.go", Tests: "^TestRule04AnchoredAtTheSend$", Packages: inLease,
	Old: `got, err = send(ctx, g)`,
	New: `got, err = send(ctx, g)
		got.Sent = s.engine.Clocks()`,
}, {
	Name: "the wall clock is not checked",
	Why:  "a lease is still valid after its machine was suspended",
	File: "internal/lease/validity.go", Tests: "^TestValidityEndsWithTheTTL$", Packages: inLease,
	Old: `max(now.Mono-v.from.Mono, now.Wall.Sub(v.from.Wall))`,
	New: `now.Mono - v.from.Mono`,
}, {
	Name: "the monotonic clock is not checked",
	Why:  "a wall clock that was set back makes a lease longer",
	File: "internal/lease/validity.go", Tests: "^TestValidityEndsWithTheTTL$", Packages: inLease,
	Old: `max(now.Mono-v.from.Mono, now.Wall.Sub(v.from.Wall))`,
	New: `now.Wall.Sub(v.from.Wall)`,
}, {
	Name: "the end is reported only to callers that ask",
	Why:  "a kept context ends at the next renewal instead of with the lease",
	File: "internal/lease/hold.go", Tests: "^TestAHoldEndsForAllItsHolders$", Packages: inHold,
	Old: `s.watch.Reset(s.nextCheck())`,
	New: `_ = s.nextCheck()`,
}, {
	Name: "validity ends at the release's reply", Rule: 13,
	File: "internal/lease/release.go", Tests: "^TestRule13ValidityEndsAtTheSend$", Packages: inLease,
	Old: `s.giveUp() // before anything is sent`,
	New: `defer s.giveUp()`,
}, {
	Name: "a known loss is forgotten",
	Why:  "a renewal has reported the loss, another holds the lock, and the release reports success: the caller does not compensate",
	File: "internal/lease/hold.go", Tests: "^TestAKnownLossIsRemembered$", Packages: inLease,
	Old: `s.finish(lost, ErrLost)
	s.end = lost`,
	New: `s.finish(expired, ErrLost)`,
}, {
	Name: "a release repeated after the end is reported as released",
	Why:  "other holders may have been let in, and the caller isn't told",
	File: "internal/lease/release.go", Tests: "^TestVerdictsOfVectors$", Packages: inHold,
	Old: `case s.left() > 0: // nobody`,
	New: `case s.left() > -1<<60: // nobody`,
}, {
	Name: "renewals end at the first error",
	Why:  "a short network failure costs the lock",
	File: "internal/lease/keeper.go", Tests: "^TestKeepAliveSurvivesWhatPasses$", Packages: inHold,
	Old: `of.alone, of.after = of.alone || alone, now.Mono+max(resting, s.pause())`,
	New: `of.alone, of.after = of.alone || alone, now.Mono+time.Hour`,
}, {
	Name: "a server's negative answer counts without a proof", Rule: 27,
	File: "internal/engine/absent.go", Tests: "^TestRule27", Packages: inEngine,
	Old: `if !has {`,
	New: `if has || true {`,
}, {
	Name: "an entry that was not found, without a proof, counts as there", Rule: 27,
	Why:  "others may have been let in, and Release says that nobody was",
	File: "internal/lease/errors.go", Tests: "^TestRule27UnprovenIsNoLoss$", Packages: inHold,
	Old: `case engine.AsFailure(err).Unproven:`,
	New: `case engine.AsFailure(err).Unproven && s.left() <= 0:`,
}}
