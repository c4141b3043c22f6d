package mutants

// shares let local holders have an entry in common that they must not, or in
// another way than they may.
var shares = []Mutant{
	{
		Name: "a tag that respects itself is shared", Rule: 21,
		Why:  "two writers of one process hold at the same time",
		File: "relations/share.go",
		Edits: swap(`if r[tag][tag].Kind != None {`,
			`if r[tag][tag].Kind == Assertive {`),
		Tests: "^TestRule21SharingIsSound$", Packages: inRelations,
	},
	{
		Name: "a tag is shared although a tag that it respects ignores it", Rule: 21,
		Why:  "a holder that is let in beside the entry meets a holder that joins it",
		File: "relations/share.go",
		Edits: swap(`from.Kind != None && to.Kind == None`,
			`from.Kind != None && to.Kind == None && r[other][other].Kind == None`),
		Tests: "^TestRule21SharingIsSound$", Packages: inRelations,
	},
	{
		Name: "a tag that is counted is shared", Rule: 21,
		Why:  "a tag that tolerates some of its entries finds one entry in place of many holders",
		File: "relations/share.go",
		Edits: swap(`if to.Allow > 0 {`,
			`if to.Allow > 1 {`),
		Tests: "^TestRule21SharingIsSound$", Packages: inRelations,
	},
	{
		Name: "ShareInProcess is not checked", Rule: 21,
		Why:  "any tag may be shared",
		File: "multilock/join.go",
		Edits: swap(`} else if reason := e.Rules().CheckShareable(tag); reason != nil {`,
			`} else if reason := e.Rules().CheckShareable(tag); reason != nil && tag == "" {`),
		Tests: "^TestShareIsRefused$", Packages: inLocker,
	},
	{
		Name: "the first holder to leave releases the entry", Rule: 21,
		Why:  "a writer is let in beside the other readers",
		File: "internal/lease/hold.go",
		Edits: swap(`case len(s.holders) > 1 && s.check() == nil:`,
			`case len(s.holders) > 1000:`),
		Tests: "^TestRule21LocalHoldersShareAnEntry$", Packages: inLocker,
	},
	{
		Name: "an update that ends a holder's part ends the entry", Rule: 21,
		Why:  "the other holders hold nothing",
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
		Why:  "the new holder holds nothing",
		File: "internal/lease/hold.go",
		Edits: swap(`	if s.releasing || s.detached || s.suspended || s.replaced {
		return nil
	}
`,
			``),
		Tests: "^TestAHoldThatIsBeingReleasedIsNotJoined$", Packages: inHold,
	},
	{
		Name: "holders join past a waiter that was seen", Rule: 21,
		Why:  "overlapping readers keep a writer out for ever",
		File: "internal/waitqueue/shared.go",
		Edits: swap(`			delete(d.shared, tag)
		} else {`,
			`			_ = s
		} else {`),
		Tests: "^TestRule21AWaiterIsSeenByOthers$", Packages: inLocker,
	},
	{
		Name: "a look's image is not used", Rule: 21,
		Why:  "a reader passes a waiting writer that its own command has shown",
		File: "multilock/join.go",
		Edits: swap(`if blocking, _ := a.locker.engine.InTheWay(img, a.request.Tag, nil); len(blocking) > 0 {`,
			`if blocking, _ := a.locker.engine.InTheWay(img, a.request.Tag, nil); len(blocking) > 100 {`),
		Tests: "^TestRule21NoHolderJoinsPastAWaiter$", Packages: inLocker,
	},
	{
		Name: "the entry is never looked at again", Rule: 21,
		Why:  "a writer of another process is never seen",
		File: "internal/waitqueue/shared.go",
		Edits: swap(`d.clock()-s.seen > unchecked`,
			`d.clock()-s.seen > 100*unchecked`),
		Tests: "^TestRule21NoHolderJoinsPastAWaiter$", Packages: inLocker,
	},
	{
		Name: "the entry is looked at once a second", Rule: 21,
		Why:  "a writer waits up to a second longer than the present readers hold",
		File: "internal/waitqueue/shared.go",
		Edits: swap(`unchecked = 200 * time.Millisecond`,
			`unchecked = time.Second`),
		Tests: "^TestRule21NoHolderJoinsPastAWaiter$", Packages: inLocker,
	},
	{
		Name: "every joining holder looks", Rule: 0,
		Why:  "a thousand simultaneous tries send a thousand commands",
		File: "internal/waitqueue/shared.go",
		Edits: swap(`case s.check != nil:`,
			`case s.check != nil && r.Document:`),
		Tests: "^TestOneChecksForAll$", Packages: []string{queuePkg, lockerPkg},
	},
	{
		Name: "an old entry is joined", Rule: 21,
		Why:  "a lease that was just acquired is about to end",
		File: "internal/lease/holds.go",
		Edits: swap(`s.grant.TTL*2/3`,
			`s.grant.TTL/10`),
		Tests: "^TestRule21NoHolderJoinsPastAWaiter$", Packages: inLocker,
	},
	{
		Name: "a joined lease is valid for a fresh TTL", Rule: 21,
		Why:  "a writer is let in while the joined lease is still valid",
		File: "internal/lease/handle.go",
		Edits: swap(`	return max(0, h.hold.left())
`,
			`	if h.hold.shared {
		return h.hold.engine.Lease(h.hold.grant.Tag)
	}
	return max(0, h.hold.left())
`),
		Tests: "^TestRule21OneValidityForAll$", Packages: inLocker,
	},
	{
		Name: "the entry's end does not end its holders' leases", Rule: 21,
		Why:  "they go on without the lock",
		File: "internal/lease/hold.go",
		Edits: swap(`	for _, h := range s.holders {
		h.end(cause)`,
			`	for _, h := range s.holders {
		if s.shared && cause == ErrLost {
			continue
		}
		h.end(cause)`),
		Tests: "^TestRule21OneValidityForAll$", Packages: inLocker,
	},
	{
		Name: "the last release after the end releases nothing", Rule: 21,
		Why:  "the entry of an ended lease stays, and a loss is reported as a success",
		File: "internal/lease/hold.go",
		Edits: swap(`case len(s.holders) > 1 && s.check() == nil:`,
			`case len(s.holders) > 1 || s.check() != nil:`),
		Tests: "^TestRule21OneValidityForAll$", Packages: inLocker,
	},
	{
		Name: "a later release after the end has the first one's verdict", Rule: 21,
		Why:  "another holder was let in, and the later release reports success",
		File: "internal/lease/release.go",
		Edits: swap(`		h.settle(ctx, v, ErrLost)
`,
			`		h.settle(ctx, v, nil)
`),
		Tests: "^TestRule21AHolderThatStaysAfterTheEndHasLost$", Packages: inLocker,
	},
	{
		Name: "a leaving holder checks twice", Rule: 21,
		Why:  "holders that leave together get ErrLost, and compensate for writes that were good",
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
		Tests: "^TestRule21HoldersThatLeaveTogether$", Packages: inLocker,
	},
	{
		Name: "a refused release of a shared entry is the last", Rule: 0,
		Why:  "the entry stays until it expires, though its holder repeats the release",
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
		Name: "a refused look's image is forgotten", Rule: 21,
		Why:  "the waiter looks again and again, which keeps the entry alive",
		File: "multilock/join.go",
		Edits: swap(`checked{image: img, conflict: a.conflict(img, nil)}`,
			`checked{conflict: a.conflict(img, nil)}`),
		Tests: "^TestRule21ACheckThatFindsAWaiterIsTheLast$", Packages: inLocker,
	},
	{
		Name: "a grant lets no waiting holder join", Rule: 0,
		Why:  "readers that wait together come in one by one, with a writer after each",
		File: "internal/waitqueue/shared.go",
		Edits: swap(`	d.admit(r.Tag)
	if`,
			`	if`),
		Tests: "^TestWaitersBehindAPlaceJoinItsEntry$", Packages: inLocker,
	},
}
