package mutants

// acquires leave entries behind, or believe in the wrong one.
var acquires = []Mutant{
	{
		Name: "validity counts from the acquire's reply", Rule: 4,
		Why:  "a contender enters while the holder still believes",
		File: "multilock/send.go",
		Edits: swap(`got.Answer, err = a.locker.commands.Acquire(ctx, a.filter, a.request.Request)`,
			`got.Answer, err = a.locker.commands.Acquire(ctx, a.filter, a.request.Request)
		got.Sent = a.locker.engine.Clocks()`),
		Tests: "^TestRule04AnchoredAtTheSend$", Packages: []string{leasePkg, lockerPkg},
	},
	{
		Name: "validity counts from the confirm's reply", Rule: 4,
		Why:  "a contender enters while the holder still believes",
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
		Name: "an acquire by any filter is repeated", Rule: 0,
		Why:  "the repeat locks a second document",
		File: "multilock/send.go",
		Edits: swap(`if a.filter.Pin == nil {`,
			`if a.filter.Pin == nil && ctx == nil {`),
		Tests: "^TestUnknownOutcomeOfUnpinnedAcquireIsReported$", Packages: inLocker,
	},
	{
		Name: "what was granted to a caller who had gone is kept", Rule: 22,
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
		Why:  "an entry that nobody waits with keeps others back",
		File: "multilock/acquire.go",
		Edits: swap(`		p.withdraw(nil, func(error) {})
`,
			``),
		Tests: "^(TestCancelledWhileItsEntryWaitsLeavesNoEntry|TestCloseWakesWaitersAndTheirEntriesAreGone)$", Packages: inLocker,
	},
	{
		Name: "a ticket believes in an entry with another seq", Rule: 7,
		Why:  "pruned and entered anew by a late duplicate, it goes before those who came before it",
		File: "multilock/place.go",
		Edits: swap(`if own.Seq != p.grant.Seq {`,
			`if own.Seq < p.grant.Seq {`),
		Tests: "^TestTicketLostWhenALateDuplicate", Packages: inLocker,
	},
	{
		Name: "a document that can't be decoded stays locked", Rule: 0,
		Why:  "the caller has an error and no lease, and nobody is let in",
		File: "multilock/acquisition.go",
		Edits: swap(`a.locker.release(held, nil)`,
			`_ = held`),
		Tests: "^TestIntoThatFailsReleasesTheLock$", Packages: inLocker,
	},
	{
		Name: "a waiter asks too late to keep its place", Rule: 0,
		Why:  "it is pruned, and begins again at the end",
		File: "multilock/place.go",
		Edits: swap(`engine.Wait(p.grant.Tag) / 3`,
			`engine.Wait(p.grant.Tag) * 30`),
		Tests: "^TestTicketThatWaitedLongKeepsItsPlace$", Packages: inLocker,
	},
}
