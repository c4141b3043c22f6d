package mutants

// acquires leave entries, or accept the wrong one.
var acquires = []Mutant{{
	Name: "validity counts from the acquire's reply", Rule: 4,
	File: "multilock/attempts.go", Tests: "^TestRule04AnchoredAtTheSend$", Packages: []string{leasePkg, lockerPkg},
	Old: `got.Answer, err = s.locker.engine.Acquire(ctx, s.filter, r)`,
	New: `got.Answer, err = s.locker.engine.Acquire(ctx, s.filter, r)
		got.Sent = s.locker.engine.Clocks()`,
}, {
	Name: "an id is used again", Rule: 19,
	File: "multilock/waiting.go", Tests: "^TestAcquireWhoseEntryWasPrunedStartsAgainUnderANewID$", Packages: inLocker,
	Old: `newAttempts(s.asked, s.waiter).ask(ctx)`,
	New: `attempts{asked: s.asked, id: s.id, unsure: s.unsure, waiter: s.waiter}.ask(ctx)`,
}, {
	Name: "a grant to a caller that has given up is kept", Rule: 22,
	File: "multilock/attempts.go", Tests: "^TestCancelledDuringTheCommandLeavesNoEntry$", Packages: inLocker,
	Old: `s.filter.Pin, got.err == nil && (got.Outcome`,
	New: `s.filter.Pin, got.err != nil && (got.Outcome`,
}, {
	Name: "an acquire of unknown outcome isn't cleaned up", Rule: 22,
	File: "multilock/attempts.go", Tests: "^TestUnknownOutcomeOfUnpinnedAcquireIsReported$", Packages: inLocker,
	Old: `got.unsure.note(err)`,
}, {
	Name: "a waiter that gives up leaves its entry",
	Why:  "an entry without a waiter blocks others",
	File: "multilock/waiting.go", Tests: "^TestAWaitThatEndsNamesTheHolderAndLeavesNoEntry$", Packages: inLocker,
	Old: `s.entry.withdraw(nil, func(error) {})`,
}, {
	Name: "a ticket accepts an entry with another seq", Rule: 7,
	Why:  "an entry that was pruned, and made again by a late duplicate, goes before entries that came before it",
	File: "multilock/attempts.go", Tests: "^TestTicketLostWhenALateDuplicate", Packages: inLocker,
	Old: `if own.Seq != e.grant.Seq {`,
	New: `if own.Seq < e.grant.Seq {`,
}, {
	Name: "a document that can't be decoded stays locked",
	Why:  "the caller has an error and no lease, and no other holder is let in",
	File: "multilock/asked.go", Tests: "^TestIntoThatFailsReleasesTheLock$", Packages: inLocker,
	Old: `a.locker.cleanup.release(context.Background(), a.request, held, nil)`,
}}
