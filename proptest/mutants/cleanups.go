package mutants

// cleanups leave entries of acquires without a lease, also of late ones, or let
// them pile up.
var cleanups = []Mutant{
	{
		Name: "an attempt on its way is forgotten once a later one is answered", Rule: 22,
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
		Name: "a late entry is removed only once", Rule: 22,
		Why:  "the entry comes after that, and nobody holds the lock until it expires",
		File: "multilock/cleanup.go",
		Edits: swap(`if l.entries <= 0 || c.closed`,
			`if l.entries <= 0 || l.rest > 0 || c.closed`),
		Tests: "^TestALateAttempt", Packages: inLocker,
	},
	{
		Name: "a missing entry is removed again for ever", Rule: 0,
		Why:  "each lost request costs commands as long as the process lives",
		File: "multilock/cleanup.go",
		Edits: swap(`c.closed || !now.Before(l.until)`,
			`c.closed || now.IsZero()`),
		Tests: "^TestTheCleanUpAfterALostAttemptEnds$", Packages: inLocker,
	},
	{
		Name: "an entry that was found is removed again", Rule: 0,
		Why:  "each cut-off acquire costs ten commands",
		File: "multilock/leftover.go",
		Edits: swap(`if found || l.seen {`,
			`if l.seen {`),
		Tests: "^TestTheCleanUpEndsWithTheEntry$", Packages: inLocker,
	},
	{
		Name: "Close does not remove once more", Rule: 22,
		Why:  "an entry that came since the last removal stays until it expires",
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
		Why:  "a storm of callers that give up is a storm of commands",
		File: "multilock/cleanup.go",
		Edits: swap(`len(ids) < mostIDs`,
			`len(ids) < 1`),
		Tests: "^TestCleanUpIsOneCommandForMany", Packages: inLocker,
	},
	{
		Name: "a failed clean-up is not reported", Rule: 0,
		Why:  "entries stay, and nobody knows the reason",
		File: "multilock/cleanup.go",
		Edits: swap(`			tell = append(tell, func() { c.failed(documentOf(p.pin), p.tag, id, s.err) })
`,
			``),
		Tests: "^TestCleanUpIsOneCommandForMany", Packages: inLocker,
	},
	{
		Name: "a clean-up removes all entries of the tag", Rule: 0,
		Why:  "a holder loses its lock to a waiter that gave up",
		File: "internal/engine/remove.go",
		Edits: swap(`bson.D{{Key: path, Value: oneOf}}`,
			`bson.D{{Key: path, Value: bson.D{}}}`),
		Tests: "^TestRemove", Packages: inEngine,
	},
	{
		Name: "a successor of unknown outcome joins another's entry", Rule: 15,
		Why:  "its own entry, made by the handoff, is held by nobody",
		File: "multilock/acquire.go",
		Edits: swap(`if a.unsure.n == 0 {`,
			`if a.unsure.n >= 0 {`),
		Tests: "^TestRule15ASuccessorOfUnknownOutcome", Packages: inLocker,
	},
	{
		Name: "a holder of a shared entry forgets its own", Rule: 15,
		Why:  "an attempt on its way is executed, and nobody holds its entry",
		File: "multilock/leftover.go",
		Edits: swap(`(held == nil || held.ID() != a.request.ID)`,
			`held == nil`),
		Tests: "^TestALateAttemptOfAHolderThatJoined", Packages: inLocker,
	},
	{
		Name: "a grant by a second attempt has no clean-up", Rule: 22,
		Why:  "the first attempt is executed after the release, and nobody holds the lock until it expires",
		File: "multilock/grant.go",
		Edits: swap(`if late.n > 0 {`,
			`if late.n > 100 {`),
		Tests: "^TestALateAttemptOfAReleasedLease", Packages: inLocker,
	},
	{
		Name: "acquires of a document are not bounded", Rule: 0,
		Why:  "callers that give up pile up commands, and the holder's renewal comes too late",
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
		Name: "a waiter leaves the wait queue while its command is out", Rule: 0,
		Why:  "the next waiter asks beside it, and so on",
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
		Name: "the lock stays when the caller's decoder panics", Rule: 0,
		Why:  "the caller recovers and has no lease, and no other holder is let in",
		File: "multilock/grant.go",
		Edits: swap(`	decoded := false
`,
			`	decoded := true
`),
		Tests: "^TestIntoThat", Packages: inLocker,
	},
	{
		Name: "who waits behind the bound hears nothing of Close", Rule: 0,
		Why:  "Close has returned, or its context has ended, and callers of the Locker still wait for commands that are out",
		File: "multilock/inflight.go",
		Edits: swap(`case <-closing:`,
			`case <-(chan struct{})(nil):`),
		Tests: "^TestCloseWakesAcquiresBehindTheBound$", Packages: inLocker,
	},
}
