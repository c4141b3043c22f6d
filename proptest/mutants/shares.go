package mutants

// shares let local holders have an entry in common that they must not, or in
// another way than they may.
var shares = []Mutant{
	{
		Name: "a tag that respects itself is shared", Rule: 21,
		Why:  "two writers of one process are in at the same time",
		File: "relations/share.go",
		Edits: swap(`if r[tag][tag].Kind != None {`,
			`if r[tag][tag].Kind == Assertive {`),
		Tests: "^TestRule21SharingIsSound$", Packages: inRelations,
	},
	{
		Name: "a tag that somebody it respects ignores is shared", Rule: 21,
		Why:  "who is let in beside the entry meets one who joins it",
		File: "relations/share.go",
		Edits: swap(`from.Kind != None && to.Kind == None`,
			`from.Kind != None && to.Kind == None && r[other][other].Kind == None`),
		Tests: "^TestRule21SharingIsSound$", Packages: inRelations,
	},
	{
		Name: "a tag that is counted is shared", Rule: 21,
		Why:  "who tolerates some of it finds one entry where there are many holders",
		File: "relations/share.go",
		Edits: swap(`if to.Allow > 0 {`,
			`if to.Allow > 1 {`),
		Tests: "^TestRule21SharingIsSound$", Packages: inRelations,
	},
	{
		Name: "Share is not checked", Rule: 21,
		Why:  "any tag may be shared",
		File: "multilock/share.go",
		Edits: swap(`} else if reason := e.Rules().CheckShareable(tag); reason != nil {`,
			`} else if reason := e.Rules().CheckShareable(tag); reason != nil && tag == "" {`),
		Tests: "^TestShareIsRefused$", Packages: inLocker,
	},
	{
		Name: "the first to leave releases the entry", Rule: 21,
		Why:  "a writer is let in beside the readers who stay",
		File: "internal/lease/hold.go",
		Edits: swap(`case len(s.holders) > 1 && s.check() == nil:`,
			`case len(s.holders) > 1000:`),
		Tests: "^TestRule21LocalHoldersShareAnEntry$", Packages: inLocker,
	},
	{
		Name: "an update that ends a holder's part ends the entry", Rule: 21,
		Why:  "the others hold nothing",
		File: "internal/lease/ending.go",
		Edits: []Edit{
			{`	if s.several() {
		return nil, nil
	}
`, ``},
			{`case len(s.holders) == 1:`, `case len(s.holders) > 0:`},
		},
		Tests: "^TestRule21WritesOfOneEntry$", Packages: inLocker,
	},
	{
		Name: "an entry that is being released is joined", Rule: 21,
		Why:  "the new holder has nothing",
		File: "internal/lease/hold.go",
		Edits: swap(`	if s.releasing {
		return nil
	}
`,
			``),
		Tests: "^TestAHoldThatIsBeingReleasedIsNotJoined$", Packages: inHold,
	},
	{
		Name: "a waiter that was seen is passed", Rule: 21,
		Why:  "readers that overlap keep a writer out for ever",
		File: "multilock/share.go",
		Edits: swap(`			delete(l.shared, tag)
		} else {`,
			`			l.shared[tag] = s
		} else {`),
		Tests: "^TestRule21AWaiterIsSeenByOthers$", Packages: inLocker,
	},
	{
		Name: "who looks doesn't see", Rule: 21,
		Why:  "a reader passes a waiting writer that its own command has shown",
		File: "multilock/share.go",
		Edits: swap(`if blocking, _ := a.locker.engine.InTheWay(img, a.request.Tag, nil); len(blocking) > 0 {`,
			`if blocking, _ := a.locker.engine.InTheWay(img, a.request.Tag, nil); len(blocking) > 100 {`),
		Tests: "^TestRule21NobodyJoinsPastAWaiter$", Packages: inLocker,
	},
	{
		Name: "nobody looks any more", Rule: 21,
		Why:  "a writer of another process is never seen",
		File: "multilock/share.go",
		Edits: swap(`l.engine.Clocks().Mono-s.seen > trust`,
			`l.engine.Clocks().Mono-s.seen > 100*trust`),
		Tests: "^TestRule21NobodyJoinsPastAWaiter$", Packages: inLocker,
	},
	{
		Name: "a look in a second", Rule: 21,
		Why:  "a writer waits for up to a second longer than the readers hold who were there",
		File: "multilock/share.go",
		Edits: swap(`trust = 200 * time.Millisecond`,
			`trust = time.Second`),
		Tests: "^TestRule21NobodyJoinsPastAWaiter$", Packages: inLocker,
	},
	{
		Name: "everybody looks", Rule: 0,
		Why:  "of a thousand tries at the same moment each sends a command",
		File: "multilock/share.go",
		Edits: swap(`case s.look != nil:`,
			`case s.look != nil && a.into != nil:`),
		Tests: "^TestOneLooksForAll$", Packages: inLocker,
	},
	{
		Name: "an old entry is joined", Rule: 21,
		Why:  "a lease that was just acquired is about to end",
		File: "internal/lease/holds.go",
		Edits: swap(`hs.engine.Lease(s.grant.Tag)*2/3`,
			`hs.engine.Lease(s.grant.Tag)/10`),
		Tests: "^TestRule21NobodyJoinsPastAWaiter$", Packages: inLocker,
	},
	{
		Name: "who joins believes for a fresh TTL", Rule: 21,
		Why:  "a writer is let in while the one who joined still believes",
		File: "internal/lease/handle.go",
		Edits: swap(`	return max(0, h.hold.left())
`,
			`	if h.hold.shared {
		return h.hold.engine.Lease(h.hold.grant.Tag)
	}
	return max(0, h.hold.left())
`),
		Tests: "^TestRule21OneBeliefForAll$", Packages: inLocker,
	},
	{
		Name: "the entry's end is not its holders'", Rule: 21,
		Why:  "they go on without the lock",
		File: "internal/lease/hold.go",
		Edits: swap(`	for _, h := range s.holders {
		h.end(cause)`,
			`	for _, h := range s.holders {
		if s.shared && cause == ErrLost {
			continue
		}
		h.end(cause)`),
		Tests: "^TestRule21OneBeliefForAll$", Packages: inLocker,
	},
	{
		Name: "who releases last, after the end, releases nothing", Rule: 21,
		Why:  "the entry of a lease that ended stays, and a loss is told as a success",
		File: "internal/lease/hold.go",
		Edits: swap(`case len(s.holders) > 1 && s.check() == nil:`,
			`case len(s.holders) > 1 || s.check() != nil:`),
		Tests: "^TestRule21OneBeliefForAll$", Packages: inLocker,
	},
	{
		Name: "who stays after the end is told what the first to release was", Rule: 21,
		Why:  "somebody was let in beside it, and it is told that nobody was",
		File: "internal/lease/release.go",
		Edits: swap(`		h.settle(v, ErrLost)
`,
			`		h.settle(v, nil)
`),
		Tests: "^TestRule21WhoStaysAfterTheEndHasLost$", Packages: inLocker,
	},
	{
		Name: "who leaves looks twice", Rule: 21,
		Why:  "sharers who leave together are told that the lock was lost, and take back what was good",
		File: "internal/lease/release.go",
		Edits: swap(`	part := s.depart(h)
`,
			`	part := s.depart(h)
	if part == leftOthers {
		for range 20_000 { // others may leave meanwhile
			_ = s.left()
		}
		if s.isReleasing() {
			part = leftAfterAll
		}
	}
`),
		Tests: "^TestRule21SharersWhoLeaveTogether$", Packages: inLocker,
	},
	{
		Name: "a refused release of a shared entry is the last", Rule: 0,
		Why:  "the entry stays until it expires, though its holder tries again",
		File: "internal/lease/release.go",
		Edits: swap(`h.released, s.releasing = nil, false`,
			`h.released, s.releasing = nil, s.shared`),
		Tests: "^TestASharedReleaseThatIsRefusedIsTriedAgain$", Packages: inLocker,
	},
	{
		Name: "a last write that was sent for the only holder of a shared entry is not noted", Rule: 0,
		Why:  "its caller gives up, and is told that nothing was sent: the write was applied, and is repeated",
		File: "internal/lease/ending.go",
		Edits: swap(`	first := s.engine.Clocks()
`, `	first := s.engine.Clocks()
	if s.shared {
		bounded = engine.WithSending(bounded, &engine.Sending{})
	}
`),
		Tests: "^TestSharedWriteThatWasSentIsUnknown$", Packages: inLease,
	},
	{
		Name: "what a refused look shows is forgotten", Rule: 21,
		Why:  "the waiter looks again and again, and keeps the entry alive by it",
		File: "multilock/share.go",
		Edits: swap(`looked{image: img, conflict: a.conflict(img, nil)}`,
			`looked{conflict: a.conflict(img, nil)}`),
		Tests: "^TestRule21ALookThatFindsSomebodyIsTheLast$", Packages: inLocker,
	},
	{
		Name: "a grant lets in nobody who waited for it", Rule: 0,
		Why:  "readers who gathered come in one by one, a writer after each",
		File: "multilock/share.go",
		Edits: swap(`	l.admit(tag)
	if`,
			`	if`),
		Tests: "^TestAWaitersFollowersComeInWithIt$", Packages: inLocker,
	},
}
