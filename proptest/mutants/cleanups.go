package mutants

// cleanups leave behind what acquires without a lease have entered, or may
// enter yet, or let it pile up.
var cleanups = []Mutant{
	{
		Name: "an attempt that is out is forgotten once a later one is answered", Rule: 22,
		Why:  "it is executed, and nobody holds the lock until it expires",
		File: "multilock/send.go",
		Edits: swap(`	a.unsure.add(got.unsure)
	if got.err != nil {
`,
			`	if got.err != nil {
		a.unsure.add(got.unsure)
`),
		Tests: "^TestALateAttempt", Packages: inLocker,
	},
	{
		Name: "what may come late is removed once", Rule: 22,
		Why:  "it comes after that, and nobody holds the lock until it expires",
		File: "multilock/cleanup.go",
		Edits: swap(`if l.entries <= 0 || c.closed`,
			`if l.entries <= 0 || l.rest > 0 || c.closed`),
		Tests: "^TestALateAttempt", Packages: inLocker,
	},
	{
		Name: "what is not found is looked for for ever", Rule: 0,
		Why:  "each lost request costs commands as long as the process lives",
		File: "multilock/cleanup.go",
		Edits: swap(`c.closed || !now.Before(l.until)`,
			`c.closed || now.IsZero()`),
		Tests: "^TestTheCleanUpAfterALostAttemptEnds$", Packages: inLocker,
	},
	{
		Name: "what was found is looked for again", Rule: 0,
		Why:  "each cut-off acquire costs ten commands",
		File: "multilock/leftover.go",
		Edits: swap(`if found || l.seen {`,
			`if l.seen {`),
		Tests: "^TestTheCleanUpEndsWithTheEntry$", Packages: inLocker,
	},
	{
		Name: "Close does not look once more", Rule: 22,
		Why:  "what came since the last look stays until it expires",
		File: "multilock/cleanup.go",
		Edits: swap(`			c.owe(l)
			l.due, l.last = time.Now(), true
`,
			`			_ = l
`),
		Tests: "^TestALateAttemptOfARefused", Packages: inLocker,
	},
	{
		Name: "each id is removed by a command of its own", Rule: 0,
		Why:  "a storm of callers who give up is a storm of commands",
		File: "multilock/cleanup.go",
		Edits: swap(`len(ids) < mostIDs`,
			`len(ids) < 1`),
		Tests: "^TestCleanUpIsOneCommandForMany", Packages: inLocker,
	},
	{
		Name: "a clean-up that failed is told to nobody", Rule: 0,
		Why:  "entries stay, and no one knows why",
		File: "multilock/cleanup.go",
		Edits: swap(`			tell = append(tell, func() { c.failed(s.err) })
`,
			``),
		Tests: "^TestCleanUpIsOneCommandForMany", Packages: inLocker,
	},
	{
		Name: "a clean-up removes whoever has the tag", Rule: 0,
		Why:  "a holder loses its lock to a waiter who gave up",
		File: "internal/engine/remove.go",
		Edits: swap(`Value: bson.D{{Key: idKey, Value: oneOf}}`,
			`Value: bson.D{}`),
		Tests: "^TestRemove", Packages: inEngine,
	},
	{
		Name: "a successor of unknown outcome joins another's entry", Rule: 15,
		Why:  "its own, which the handoff has made, is held by nobody",
		File: "multilock/acquire.go",
		Edits: swap(`if a.unsure.n == 0 {`,
			`if a.unsure.n >= 0 {`),
		Tests: "^TestRule15ASuccessor", Packages: inLocker,
	},
	{
		Name: "who shares another's entry forgets its own", Rule: 15,
		Why:  "an attempt that was out is executed, and nobody holds what it enters",
		File: "multilock/acquisition.go",
		Edits: swap(`(held == nil || held.ID() != a.request.ID)`,
			`held == nil`),
		Tests: "^TestALateAttemptOfWhoShares", Packages: inLocker,
	},
	{
		Name: "what was granted by a second attempt is not looked after", Rule: 22,
		Why:  "the first is executed after the release, and nobody holds the lock until it expires",
		File: "multilock/acquisition.go",
		Edits: swap(`if late.n > 0 {`,
			`if late.n > 100 {`),
		Tests: "^TestALateAttemptOfAReleasedLease", Packages: inLocker,
	},
	{
		Name: "acquires of a document are not bounded", Rule: 0,
		Why:  "callers who give up pile commands up, and the holder's renewal comes too late",
		File: "multilock/inflight.go",
		Edits: swap(`slots{free: mostPerDocument}`,
			`slots{free: 1 << 20}`),
		Tests: "^TestAcquiresBehindTheBound", Packages: inLocker,
	},
	{
		Name: "acquires of a Locker are not bounded", Rule: 0,
		Why:  "they fill the driver's pool, and renewals wait for a connection",
		File: "multilock/inflight.go",
		Edits: swap(`slots{free: mostPerLocker}`,
			`slots{free: 1 << 20}`),
		Tests: "^TestAcquiresOfManyDocuments", Packages: inLocker,
	},
	{
		Name: "who waits behind the bound hears nothing of Close", Rule: 0,
		Why:  "Close has returned, or its context has ended, and callers of the Locker still wait for commands that are out",
		File: "multilock/inflight.go",
		Edits: swap(`case <-closing:`,
			`case <-(chan struct{})(nil):`),
		Tests: "^TestCloseWakesWhoWaitsBehindTheBound$", Packages: inLocker,
	},
	{
		Name: "a waiter leaves the line while its command is out", Rule: 0,
		Why:  "the next one asks beside it, and so on",
		File: "multilock/acquire.go",
		Edits: swap(`	if a.gone {
		return
	}
	a.leave(held)`,
			`	if a.gone {
		a.locker.queues.Leave(w)
		return
	}
	a.leave(held)`),
		Tests: "^TestAWaiterWhoseCommandIsOut", Packages: inLocker,
	},
	{
		Name: "a lock stays whose document the caller's code panics over", Rule: 0,
		Why:  "the caller recovers and has no lease, and nobody is let in",
		File: "multilock/acquisition.go",
		Edits: swap(`	decoded := false
`,
			`	decoded := true
`),
		Tests: "^TestIntoThat", Packages: inLocker,
	},
}
