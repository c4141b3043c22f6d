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
		File: "multilock/join.go",
		Edits: swap(`} else if reason := e.Rules().CheckShareable(tag); reason != nil {`,
			`} else if reason := e.Rules().CheckShareable(tag); reason != nil && tag == "" {`),
		Tests: "^TestShareIsRefused$", Packages: inLocker,
	},
	{
		Name: "the first to leave releases the entry", Rule: 21,
		Why:  "a writer is let in beside the readers who stay",
		File: "internal/lease/share.go",
		Edits: swap(`case s.holders > 1 && s.base.Err() == nil:`,
			`case s.holders > 1000:`),
		Tests: "^TestRule21LocalHoldersShareAnEntry$", Packages: inLocker,
	},
	{
		Name: "an update that ends a holder's part ends the entry", Rule: 21,
		Why:  "the others hold nothing",
		File: "internal/lease/share.go",
		Edits: swap(`if s.given || s.holders > 1 {`,
			`if s.given || s.holders > 100 {`),
		Tests: "^TestRule21WritesOfOneEntry$", Packages: inLocker,
	},
	{
		Name: "an entry that is being released is joined", Rule: 21,
		Why:  "the new holder has nothing",
		File: "internal/lease/share.go",
		Edits: swap("	if s.given {\n		return nil\n	}\n	s.holders++",
			"	s.holders++"),
		Tests: "^TestRule21NobodyJoinsAReleasedEntry$", Packages: inLocker,
	},
	{
		Name: "a waiter that was seen is passed", Rule: 21,
		Why:  "readers that overlap keep a writer out for ever",
		File: "internal/waitqueue/shared.go",
		Edits: swap(`			delete(d.shared, tag)
		} else {`,
			`			_ = s
		} else {`),
		Tests: "^TestRule21AWaiterIsSeenByOthers$", Packages: inLocker,
	},
	{
		Name: "who looks doesn't see", Rule: 21,
		Why:  "a reader passes a waiting writer that its own command has shown",
		File: "multilock/join.go",
		Edits: swap(`if blocking, _ := a.locker.engine.InTheWay(img, a.request.Tag, nil); len(blocking) > 0 {`,
			`if blocking, _ := a.locker.engine.InTheWay(img, a.request.Tag, nil); len(blocking) > 100 {`),
		Tests: "^TestRule21NobodyJoinsPastAWaiter$", Packages: inLocker,
	},
	{
		Name: "nobody looks any more", Rule: 21,
		Why:  "a writer of another process is never seen",
		File: "internal/waitqueue/shared.go",
		Edits: swap(`d.clock()-s.seen > unchecked`,
			`d.clock()-s.seen > 100*unchecked`),
		Tests: "^TestRule21NobodyJoinsPastAWaiter$", Packages: inLocker,
	},
	{
		Name: "a look in a second", Rule: 21,
		Why:  "a writer waits for up to a second longer than the readers hold who were there",
		File: "internal/waitqueue/shared.go",
		Edits: swap(`unchecked = 200 * time.Millisecond`,
			`unchecked = time.Second`),
		Tests: "^TestRule21NobodyJoinsPastAWaiter$", Packages: inLocker,
	},
	{
		Name: "everybody looks", Rule: 0,
		Why:  "of a thousand tries at the same moment each sends a command",
		File: "internal/waitqueue/shared.go",
		Edits: swap(`case s.check != nil:`,
			`case s.check != nil && r.Document:`),
		Tests: "^(TestOneChecksForAll|TestOneLooksForAll)$", Packages: []string{queuePkg, lockerPkg},
	},
	{
		Name: "an old entry is joined", Rule: 21,
		Why:  "a lease that was just acquired is about to end",
		File: "internal/lease/share.go",
		Edits: swap(`ls.engine.Lease(s.base.grant.Tag)*2/3`,
			`ls.engine.Lease(s.base.grant.Tag)/10`),
		Tests: "^TestRule21NobodyJoinsPastAWaiter$", Packages: inLocker,
	},
	{
		Name: "who joins believes for a fresh TTL", Rule: 21,
		Why:  "a writer is let in while the one who joined still believes",
		File: "internal/lease/handle.go",
		Edits: swap(`	return max(0, l.entry().left())
`, `	if l.share != nil {
		return l.engine.Lease(l.grant.Tag)
	}
	return max(0, l.entry().left())
`),
		Tests: "^TestRule21OneBeliefForAll$", Packages: inLocker,
	},
	{
		Name: "the entry's end is not its holders'", Rule: 21,
		Why:  "they go on without the lock",
		File: "internal/lease/share.go",
		Edits: swap(`	b.follow(l)
`, ``),
		Tests: "^TestRule21OneBeliefForAll$", Packages: inLocker,
	},
	{
		Name: "who releases last, after the end, releases nothing", Rule: 21,
		Why:  "the entry of a lease that ended stays, and a loss is told as a success",
		File: "internal/lease/share.go",
		Edits: swap(`case s.holders > 1 && s.base.Err() == nil:`,
			`case s.holders > 1 || s.base.Err() != nil:`),
		Tests: "^TestRule21OneBeliefForAll$", Packages: inLocker,
	},
	{
		Name: "who stays after the end is told what the first to release was", Rule: 21,
		Why:  "somebody was let in beside it, and it is told that nobody was",
		File: "internal/lease/share.go",
		Edits: swap(`	case leftAfterAll:
		return ErrLost`,
			`	case leftAfterAll:
		return s.base.Release(ctx)`),
		Tests: "^TestRule21WhoStaysAfterTheEndHasLost$", Packages: inLocker,
	},
	{
		Name: "who leaves looks twice", Rule: 21,
		Why:  "sharers who leave together are told that the lock was lost, and take back what was good",
		File: "internal/lease/share.go",
		Edits: swap(`	part := s.depart()
`, `	part := s.depart()
	if part == leftOthers {
		for range 20_000 { // others may leave meanwhile
			_ = s.base.left()
		}
		if s.base.given() != nil {
			part = leftAfterAll
		}
	}
`),
		Tests: "^TestRule21SharersWhoLeaveTogether$", Packages: inLocker,
	},
	{
		Name: "a refused release of a shared entry is the last", Rule: 0,
		Why:  "the entry stays until it expires, though its holder tries again",
		File: "internal/lease/share.go",
		Edits: swap(`	if s.base.given() == nil {
		s.mu.Lock()`,
			`	if s.base.given() == nil && s.holders == 0 {
		s.mu.Lock()`),
		Tests: "^TestASharedReleaseThatIsRefusedIsTriedAgain$", Packages: inLocker,
	},
	{
		Name: "what a refused look shows is forgotten", Rule: 21,
		Why:  "the waiter looks again and again, and keeps the entry alive by it",
		File: "multilock/join.go",
		Edits: swap(`checked{image: img, conflict: a.conflict(img, nil)}`,
			`checked{conflict: a.conflict(img, nil)}`),
		Tests: "^TestRule21ALookThatFindsSomebodyIsTheLast$", Packages: inLocker,
	},
	{
		Name: "a grant lets in nobody who waited for it", Rule: 0,
		Why:  "readers who gathered come in one by one, a writer after each",
		File: "internal/waitqueue/shared.go",
		Edits: swap(`	d.admit(r.Tag)
	if`,
			`	if`),
		Tests: "^TestAWaitersFollowersComeInWithIt$", Packages: inLocker,
	},
}
