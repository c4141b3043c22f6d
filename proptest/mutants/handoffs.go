package mutants

// handoffs give the lock to the wrong one, to nobody, or for too long. A
// handoff here is a release and the heir's arrival or confirm as two stages of
// one pipeline, so rules 12, 15 and 16 hold in another shape than where it is
// one decision: see docs/protocol.md.
var handoffs = []Mutant{
	{
		Name: "a handoff's guard without the token", Rule: 1,
		Why:  "a late duplicate of the acquire revives the id, and the lease that was lost hands over",
		File: "internal/engine/handoff.go",
		Edits: swap(`return e.pass(ctx, e.guard(g), bson.A{leave,`,
			`return e.pass(ctx, g.Pin.and(bson.E{Key: e.path(g.Tag) + "." + idKey, Value: idValue(g.ID)}), bson.A{leave,`),
		Tests: "^TestRule01Handoff", Packages: inEngine,
	},
	{
		Name: "a handoff's guard without the id", Rule: 1,
		Why:  "after the document was made again a stranger's entry with the same token lets a late handoff pass",
		File: "internal/engine/handoff.go",
		Edits: swap(`return e.pass(ctx, e.guard(g), bson.A{leave,`,
			`return e.pass(ctx, g.Pin.and(bson.E{Key: e.path(g.Tag) + "." + fenceKey, Value: g.Fence}), bson.A{leave,`),
		Tests: "^TestRule01Handoff", Packages: inEngine,
	},
	{
		Name: "a handoff leaves the giver's entry", Rule: 12,
		Why:  "the lock is released to nobody until it expires",
		File: "internal/engine/handoff.go",
		Edits: swap(`leave := e.tags[g.Tag].leave.fill(g.ID, now).stage()`,
			`leave := e.tags[g.Tag].leave.fill(h.ID, now).stage()`),
		Tests: "^TestHandoffGrantsTheHeir$", Packages: inEngine,
	},
	{
		Name: "an heir that can't have the lock is entered as a waiter", Rule: 15,
		Why:  "an entry that nobody waits with keeps others back",
		File: "internal/engine/handoff.go",
		Edits: swap(`return &e.tags[h.Tag].try`,
			`return &e.tags[h.Tag].acquire`),
		Tests: "^TestRule15", Packages: inEngine,
	},
	{
		Name: "a waiting heir is entered anew", Rule: 16,
		Why:  "one that was pruned or gave up is granted what nobody holds, and one that waits is never granted",
		File: "internal/engine/handoff.go",
		Edits: swap(`return &e.tags[h.Tag].confirm`,
			`return &e.tags[h.Tag].try`),
		Tests: "^TestRule16", Packages: inEngine,
	},
	{
		Name: "an update rides though somebody has come", Rule: 17,
		Why:  "the heir is let in beside a reader who joined since",
		File: "internal/engine/handoff.go",
		Edits: swap(`bson.E{Key: e.field + "." + fenceKey, Value: long(g.Alone)},`,
			`bson.E{Key: e.field + "." + fenceKey, Value: bson.D{{Key: "$gte", Value: g.Alone}}},`),
		Tests: "^TestRule17", Packages: inEngine,
	},
	{
		Name: "an update rides on the number alone", Rule: 17,
		Why:  "it went by itself in the end, and the late handoff applies it again",
		File: "internal/engine/handoff.go",
		Edits: []Edit{
			{`		bson.E{Key: entry.id, Value: idValue(g.ID)},
`, ``},
			{`bson.E{Key: entry.fence, Value: long(g.Fence)},`, `bson.E{Key: e.path(g.Tag), Value: bson.D{{Key: "$exists", Value: entry != nil}}},`},
		},
		Tests: "^TestRule17", Packages: inEngine,
	},
	{
		Name: "an update rides though others held the lock too", Rule: 17,
		Why:  "the heir is let in beside them unjudged",
		File: "internal/engine/guard.go",
		Edits: swap(`if len(img.Lock.Entries) == 1 {`,
			`if len(img.Lock.Entries) > 0 {`),
		Tests: "^TestRule17WhatRides$", Packages: inEngine,
	},
	{
		Name: "an update rides with an heir of another tag", Rule: 17,
		Why:  "it is let in under the giver's tag, as a reader with a writer's lock",
		File: "internal/engine/handoff.go",
		Edits: swap(` && h.Tag == g.Tag`,
			``),
		Tests: "^TestRule17WhatRides$", Packages: inEngine,
	},
	{
		Name: "an update rides with an heir that waits", Rule: 17,
		Why:  "its id stands in the document twice, and once it is released others find the place taken",
		File: "internal/engine/handoff.go",
		Edits: swap(` && !h.Waiting`,
			``),
		Tests: "^TestRule17WhatRides$", Packages: inEngine,
	},
	{
		Name: "a riding handoff leaves the last number as it was", Rule: 17,
		Why:  "a second heir, or a late handoff, passes the same comparison",
		File: "internal/engine/handoff.go",
		Edits: swap(`add(e.field+"."+fenceKey, next).`,
			`add(e.field+"."+fenceKey, long(g.Alone)).`),
		Tests: "^(TestRule17|TestWriteAndHandOff)", Packages: inEngine,
	},
	{
		Name: "a riding handoff leaves the giver's token", Rule: 17,
		Why:  "two holders have one token, a late one's write elsewhere is accepted",
		File: "internal/engine/handoff.go",
		Edits: swap(`add(entry.fence, next)`,
			`add(entry.fence, long(g.Fence))`),
		Tests: "^(TestRule17|TestWriteAndHandOff)", Packages: inEngine,
	},
	{
		Name: "a riding handoff leaves the giver's write number", Rule: 17,
		Why:  "the heir's first write is taken for a repeat and not applied",
		File: "internal/engine/handoff.go",
		Edits: swap(`		{"$unset", field(entry.write, nothing)},
`,
			``),
		Tests: "^TestWriteAndHandOff$", Packages: inEngine,
	},
	{
		Name: "a riding update leaves nothing in done", Rule: 17,
		Why:  "its reply is lost, and an applied update is reported lost",
		File: "internal/engine/handoff.go",
		Edits: swap(`		e.pushDone(g),
`,
			``),
		Tests: "^TestWriteAndHandOff$", Packages: inEngine,
	},
	{
		Name: "an heir's time counts from the handoff's reply", Rule: 4,
		Why:  "a contender enters while the heir still believes",
		File: "internal/lease/handoff.go",
		Edits: swap(`outcome, img, err := s.lease.engine.Handoff(ctx, s.lease.grant, s.heir)`,
			`outcome, img, err := s.lease.engine.Handoff(ctx, s.lease.grant, s.heir)
	first = s.lease.engine.Clocks()`),
		Tests: "^TestRule04AnHeir", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "an heir that inherits an expiry believes for a TTL", Rule: 17,
		Why:  "a fresh TTL outlives the unchanged expiry, and a contender enters",
		File: "internal/lease/handoff.go",
		Edits: swap(`		first = l.since()
`,
			``),
		Tests: "^TestRule17AnHeirInherits", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "an heir inherits however little is left", Rule: 17,
		Why:  "it has a lease that is over before it has begun to work",
		File: "internal/lease/handoff.go",
		Edits: swap(`rides = rides && l.left() > l.engine.Lease(l.grant.Tag)*9/10`,
			`rides = rides && l.left() > 0`),
		Tests: "^TestRule17AnHeirInherits", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "a giver believes until the heir has the lock", Rule: 13,
		Why:  "handed over, the reply lost, still believed beside the heir",
		File: "internal/lease/release.go",
		Edits: swap(`	l.finish(ErrReleased) // before anything is sent
	ctx, cancel`,
			`	if next.heir == nil {
		l.finish(ErrReleased)
	} else {
		defer l.finish(ErrReleased)
	}
	ctx, cancel`),
		Tests: "^TestRule13", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "a handoff to one who can't have the lock is taken for none", Rule: 15,
		Why:  "the lock is released, and its holder is told that it was lost",
		File: "internal/lease/handoff.go",
		Edits: swap(`	case img == nil:
		return false, err`,
			`	case img == nil || outcome == engine.Conflict:
		return false, err`),
		Tests: "^TestRule15", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "a handoff that the server refuses is the release's end", Rule: 0,
		Why:  "a lock that could be given back plainly stays until it expires",
		File: "internal/lease/handoff.go",
		Edits: swap(`		return false, nil
	case img == nil:`,
			`		return false, err
	case img == nil:`),
		Tests: "^TestAHandoffThatIsRefusedIsARelease$", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "nobody tells the heir of an unknown outcome", Rule: 12,
		Why:  "it holds the lock and waits for it",
		File: "internal/lease/handoff.go",
		Edits: swap(`		s.heir.Answer(engine.Lost, nil, engine.Reading{})
`,
			``),
		Tests: "^TestRule12AnHeir", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "an heir of unknown outcome asks by a new id", Rule: 12,
		Why:  "its first entry keeps it out, and everybody else, until it expires",
		File: "multilock/acquire.go",
		Edits: swap(`		a.unsure.add(handoffUnknown())
`,
			`		a.renamed()
		a.unsure.add(handoffUnknown())
`),
		Tests: "^TestRule12AnHeir", Packages: inLocker,
	},
	{
		Name: "an heir of unknown outcome that can't ask leaves its entry", Rule: 15,
		Why:  "the handoff was executed, and nobody holds the lock until it expires",
		File: "multilock/acquire.go",
		Edits: swap(`		a.unsure.add(handoffUnknown())
`,
			``),
		Tests: "^TestRule15", Packages: inLocker,
	},
	{
		Name: "an heir that gave up keeps what it was handed", Rule: 15,
		Why:  "nobody holds the lock until it expires",
		File: "internal/waitqueue/succession.go",
		Edits: swap(`		s.waiter.Late(turn)
`,
			``),
		Tests: "^TestRule15", Packages: inLocker,
	},
	{
		Name: "an heir that leaves without the answer keeps what it was handed", Rule: 15,
		Why:  "nobody holds the lock until it expires",
		File: "internal/waitqueue/queues.go",
		Edits: swap(`		w.Late(late)
`,
			``),
		Tests: "^TestRule15", Packages: inLocker,
	},
	{
		Name: "an heir that gave up is cleaned up only after an answer", Rule: 15,
		Why:  "the handoff's reply was lost, and nobody holds the lock until it expires",
		File: "multilock/acquire.go",
		Edits: swap(`		a.discard(a.filter.Pin, a.request.ID, handoffUnknown(), false, nil)
`,
			``),
		Tests: "^TestRule15", Packages: inLocker,
	},
	{
		Name: "a waiting heir is handed the lock as a new one", Rule: 16,
		Why:  "it is not granted by the release, and the next in the document's queue is not told",
		File: "internal/waitqueue/succession.go",
		Edits: swap(`w.place.taken(),`,
			`false,`),
		Tests: "^TestRule16", Packages: inLocker,
	},
	{
		Name: "a successor by compare-and-set keeps the giver's since", Rule: 17,
		Why:  "a conflict says that its holder came when the one before it did",
		File: "internal/engine/handoff.go",
		Edits: swap(`operator{"$currentDate", field(entry.since, value(true))}`,
			`operator{"$setOnInsert", field(entry.since, value(true))}`),
		Tests: "^TestASuccessorsSinceIsItsOwn$", Packages: inLocker,
	},
}
