package mutants

// acquires leave entries, or accept the wrong one.
var acquires = []Mutant{
	{
		Name: "validity counts from the acquire's reply", Rule: 4,
		Why:  "another holder enters while the lease is still valid",
		File: "multilock/send.go",
		Edits: swap(`got.Answer, err = a.locker.commands.Acquire(ctx, a.filter, a.request.Request)`,
			`got.Answer, err = a.locker.commands.Acquire(ctx, a.filter, a.request.Request)
		got.Sent = a.locker.engine.Clocks()`),
		Tests: "^TestRule04AnchoredAtTheSend$", Packages: []string{leasePkg, lockerPkg},
	},
	{
		Name: "validity counts from the confirm's reply", Rule: 4,
		Why:  "another holder enters while the lease is still valid",
		File: "multilock/send.go",
		Edits: swap(`got.Answer, err = a.locker.commands.Confirm(ctx, pin, a.request.Request)`,
			`got.Answer, err = a.locker.commands.Confirm(ctx, pin, a.request.Request)
		got.Sent = a.locker.engine.Clocks()`),
		Tests: "^TestRule04", Packages: inLocker,
	},
	{
		Name: "a retried acquire takes a new id", Rule: 0,
		Why:  "the first attempt's entry excludes its own caller",
		File: "multilock/send.go",
		Edits: swap(`		got.Answer, err = a.locker.commands.Acquire(`,
			`		a.renamed()
		got.Answer, err = a.locker.commands.Acquire(`),
		Tests: "^TestUnknownOutcomeOfPinnedAcquireIsRepeated$", Packages: inLocker,
	},
	{
		Name: "an id is used again", Rule: 19,
		Why:  "a late command for the old entry meets the new one",
		File: "multilock/acquire.go",
		Edits: swap(`a.request.ID, a.unsure = uuid.New(), unsure{}`,
			`_ = uuid.New`),
		Tests: "^TestAcquireWhoseEntryWasPrunedStartsAgainUnderANewID$", Packages: inLocker,
	},
	{
		Name: "an acquire by a filter without a pin is repeated", Rule: 0,
		Why:  "the repeat locks a second document",
		File: "multilock/send.go",
		Edits: swap(`if a.filter.Pin == nil {`,
			`if a.filter.Pin == nil && ctx == nil {`),
		Tests: "^TestUnknownOutcomeOfUnpinnedAcquireIsReported$", Packages: inLocker,
	},
	{
		Name: "a grant to a caller that has given up is kept", Rule: 22,
		Why:  "nobody holds the lock until it expires",
		File: "multilock/send.go",
		Edits: swap(`a.filter.Pin, got.err == nil && (got.Outcome`,
			`a.filter.Pin, got.err != nil && (got.Outcome`),
		Tests: "^TestCancelledDuringTheCommandLeavesNoEntry$", Packages: inLocker,
	},
	{
		Name: "an acquire of unknown outcome isn't cleaned up", Rule: 22,
		Why:  "nobody holds the lock until it expires",
		File: "multilock/send.go",
		Edits: swap(`		got.unsure.note(err)
`,
			``),
		Tests: "^TestUnknownOutcomeOfUnpinnedAcquireIsReported$", Packages: inLocker,
	},
	{
		Name: "a waiter that gives up leaves its entry", Rule: 0,
		Why:  "an entry without a waiter blocks others",
		File: "multilock/acquire.go",
		Edits: swap(`		p.withdraw(nil, func(error) {})
`,
			``),
		Tests: "^(TestCancelledWhileItsEntryWaitsLeavesNoEntry|TestCloseWakesWaitersAndRemovesTheirEntries)$", Packages: inLocker,
	},
	{
		Name: "a ticket accepts an entry with another seq", Rule: 7,
		Why:  "an entry that was pruned, and made again by a late duplicate, goes before entries that came before it",
		File: "multilock/place.go",
		Edits: swap(`if own.Seq != p.grant.Seq {`,
			`if own.Seq < p.grant.Seq {`),
		Tests: "^TestTicketLostWhenALateDuplicate", Packages: inLocker,
	},
	{
		Name: "a document that can't be decoded stays locked", Rule: 0,
		Why:  "the caller has an error and no lease, and no other holder is let in",
		File: "multilock/grant.go",
		Edits: swap(`a.locker.release(held, nil)`,
			`_ = held`),
		Tests: "^TestIntoThatFailsReleasesTheLock$", Packages: inLocker,
	},
	{
		Name: "a waiter asks too late to keep its place", Rule: 0,
		Why:  "its entry is pruned, and it begins again at the end of the queue",
		File: "multilock/place.go",
		Edits: swap(`engine.Wait(p.grant.Tag) / 3`,
			`engine.Wait(p.grant.Tag) * 30`),
		Tests: "^TestTicketThatWaitedLongKeepsItsPlace$", Packages: inLocker,
	},
}
