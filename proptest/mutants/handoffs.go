package mutants

// handoffs grant the lock to the wrong waiter, to none, or for too long. A
// handoff is a release and the successor's arrival or confirm, as two stages of
// one pipeline. Rules 12, 15 and 16 are about this form: see docs/protocol.md.
var handoffs = []Mutant{
	{
		Name: "a handoff's guard without the fence", Rule: 1,
		Why:  "a late duplicate of the acquire revives the id, and the lost lease hands over",
		File: "internal/engine/handoff.go",
		Edits: swap(`return e.pass(ctx, e.guard(g), bson.A{leave,`,
			`return e.pass(ctx, g.Pin.and(bson.E{Key: e.path(g.Tag) + "." + idKey, Value: idValue(g.ID)}), bson.A{leave,`),
		Tests: "^TestRule01Handoff", Packages: inEngine,
	},
	{
		Name: "a handoff's guard without the id", Rule: 1,
		Why:  "after the document was made again, an outside writer's entry with the same fence lets a late handoff pass",
		File: "internal/engine/handoff.go",
		Edits: swap(`return e.pass(ctx, e.guard(g), bson.A{leave,`,
			`return e.pass(ctx, g.Pin.and(bson.E{Key: e.path(g.Tag) + "." + fenceKey, Value: g.Fence}), bson.A{leave,`),
		Tests: "^TestRule01Handoff", Packages: inEngine,
	},
	{
		Name: "a handoff leaves the holder's entry", Rule: 12,
		Why:  "no other holder is let in until it expires",
		File: "internal/engine/leave.go",
		Edits: swap(`return e.tags[g.Tag].leave.fill(g.ID, time.Time{}).stage()`,
			`return e.tags[g.Tag].leave.fill(uuid.New(), time.Time{}).stage()`),
		Tests: "^TestHandoffGrantsTheSuccessor$", Packages: inEngine,
	},
	{
		Name: "a successor that is not granted joins as a waiter", Rule: 15,
		Why:  "an entry without a waiter blocks others",
		File: "internal/engine/handoff.go",
		Edits: swap(`return e.template(trying, s.Tag, s.Terms)`,
			`return e.template(acquiring, s.Tag, s.Terms)`),
		Tests: "^TestRule15", Packages: inEngine,
	},
	{
		Name: "a waiting successor arrives again", Rule: 16,
		Why:  "one that was pruned, or gave up, is granted an entry that nobody holds, and one that waits is never granted",
		File: "internal/engine/handoff.go",
		Edits: swap(`return e.confirming(s.Request)`,
			`return e.template(trying, s.Tag, s.Terms)`),
		Tests: "^TestRule16", Packages: inEngine,
	},
	{
		Name: "an update is piggybacked though another entry has come", Rule: 17,
		Why:  "the successor is let in beside a reader that joined since",
		File: "internal/engine/handoff.go",
		Edits: swap(`bson.E{Key: e.field + "." + fenceKey, Value: long(g.Alone)},`,
			`bson.E{Key: e.field + "." + fenceKey, Value: bson.D{{Key: "$gte", Value: g.Alone}}},`),
		Tests: "^TestRule17", Packages: inEngine,
	},
	{
		Name: "an update is piggybacked by the fence alone", Rule: 17,
		Why:  "the update was sent by itself after all, and the late handoff applies it again",
		File: "internal/engine/handoff.go",
		Edits: []Edit{
			{`		bson.E{Key: entry.id, Value: idValue(g.ID)},
`, ``},
			{`bson.E{Key: entry.fence, Value: long(g.Fence)},`, `bson.E{Key: e.path(g.Tag), Value: bson.D{{Key: "$exists", Value: entry != nil}}},`},
		},
		Tests: "^TestRule17", Packages: inEngine,
	},
	{
		Name: "an update is piggybacked beside other holders", Rule: 17,
		Why:  "the successor is let in beside them without a decision",
		File: "internal/engine/guard.go",
		Edits: swap(`if len(img.Lock.Entries) == 1 {`,
			`if len(img.Lock.Entries) > 0 {`),
		Tests: "^TestRule17WhatPiggybacks$", Packages: inEngine,
	},
	{
		Name: "an update is piggybacked to a successor of another tag", Rule: 17,
		Why:  "the successor is let in under the holder's tag, for example as a reader with a writer's lock",
		File: "internal/engine/handoff.go",
		Edits: swap(` && s.Tag == g.Tag`,
			``),
		Tests: "^TestRule17WhatPiggybacks$", Packages: inEngine,
	},
	{
		Name: "an update is piggybacked to a waiting successor", Rule: 17,
		Why:  "its id is in the document twice, and when it is released the place is still taken",
		File: "internal/engine/handoff.go",
		Edits: swap(` && !s.Waiting`,
			``),
		Tests: "^TestRule17WhatPiggybacks$", Packages: inEngine,
	},
	{
		Name: "a piggybacked handoff leaves lock.fence unchanged", Rule: 17,
		Why:  "a second successor, or a late handoff, passes the same comparison",
		File: "internal/engine/handoff.go",
		Edits: swap(`add(e.field+"."+fenceKey, next).`,
			`add(e.field+"."+fenceKey, long(g.Alone)).`),
		Tests: "^(TestRule17|TestWriteAndHandOff)", Packages: inEngine,
	},
	{
		Name: "a piggybacked handoff leaves the holder's fence", Rule: 17,
		Why:  "two holders have one fencing token, and a late holder's write elsewhere is accepted",
		File: "internal/engine/handoff.go",
		Edits: swap(`add(entry.fence, next)`,
			`add(entry.fence, long(g.Fence))`),
		Tests: "^(TestRule17|TestWriteAndHandOff)", Packages: inEngine,
	},
	{
		Name: "a piggybacked handoff leaves the holder's write number", Rule: 17,
		Why:  "the successor's first write counts as a repeat and is not applied",
		File: "internal/engine/handoff.go",
		Edits: swap(`	unset := assemble(64).add(entry.write, nothing)
`,
			"\tunset := assemble(64).add(entry.write+\"x\", nothing)\n"),
		Tests: "^TestWriteAndHandOff$", Packages: inEngine,
	},
	{
		Name: "a piggybacked update leaves no id in done", Rule: 17,
		Why:  "its reply is lost, and an applied update is reported lost",
		File: "internal/engine/handoff.go",
		Edits: swap(`		e.pushDone(g),
`,
			``),
		Tests: "^TestWriteAndHandOff$", Packages: inEngine,
	},
	{
		Name: "a successor's validity counts from the handoff's reply", Rule: 4,
		Why:  "another holder enters while the successor's lease is still valid",
		File: "internal/lease/handoff.go",
		Edits: swap(`got, err := o.hold.commands.Handoff(ctx, o.hold.last(), o.next.Request())`,
			`got, err := o.hold.commands.Handoff(ctx, o.hold.last(), o.next.Request())
	first = o.hold.engine.Clocks()`),
		Tests: "^TestRule04ASuccessor", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "a successor that inherits an expiry is valid for a TTL", Rule: 17,
		Why:  "a fresh TTL outlives the unchanged expiry, and another holder enters",
		File: "internal/lease/handoff.go",
		Edits: swap(`		first = s.since()
`,
			``),
		Tests: "^TestRule17ASuccessorInherits", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "a successor inherits however little is left", Rule: 17,
		Why:  "its lease ends before its work has begun",
		File: "internal/lease/handoff.go",
		Edits: swap(`can = can && s.left() > s.grant.TTL*9/10`,
			`can = can && s.left() > 0`),
		Tests: "^TestRule17ASuccessorInherits", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "a holder's lease is valid until the successor has the lock", Rule: 13,
		Why:  "the lock is handed over, the reply is lost, and the lease is valid beside the successor's",
		File: "internal/lease/release.go",
		Edits: swap(`	s.finish(ErrReleased) // before anything is sent
	ctx, cancel`,
			`	if to.next == nil {
		s.finish(ErrReleased)
	} else {
		defer s.finish(ErrReleased)
	}
	ctx, cancel`),
		Tests: "^TestRule13", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "a handoff whose successor is refused counts as none", Rule: 15,
		Why:  "the lock is released, and its holder gets ErrLost",
		File: "internal/lease/handoff.go",
		Edits: swap(`	case got.Image == nil:
		return false, err`,
			`	case got.Image == nil || got.Outcome == engine.Conflict:
		return false, err`),
		Tests: "^TestRule15", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "a handoff that the server refuses ends the release", Rule: 0,
		Why:  "a lock that could be released plainly stays until it expires",
		File: "internal/lease/handoff.go",
		Edits: swap(`		return false, nil
	case got.Image == nil:`,
			`		return false, err
	case got.Image == nil:`),
		Tests: "^TestAHandoffThatIsRefusedIsARelease$", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "a successor is not told of an unknown outcome", Rule: 12,
		Why:  "it may hold the lock and waits for it",
		File: "internal/lease/handoff.go",
		Edits: swap(`		o.next.Answer(engine.Answer{Outcome: engine.Lost})
`,
			``),
		Tests: "^TestRule12ASuccessor", Packages: []string{lockerPkg, leasePkg},
	},
	{
		Name: "a successor of unknown outcome asks by a new id", Rule: 12,
		Why:  "its first entry keeps it and everybody else out until that expires",
		File: "multilock/acquire.go",
		Edits: swap(`		a.unsure.add(handoffUnknown())
`,
			`		a.renamed()
		a.unsure.add(handoffUnknown())
`),
		Tests: "^TestRule12ASuccessor", Packages: inLocker,
	},
	{
		Name: "a successor of unknown outcome that can't ask leaves its entry", Rule: 15,
		Why:  "the handoff was executed, and nobody holds the lock until it expires",
		File: "multilock/acquire.go",
		Edits: swap(`		a.unsure.add(handoffUnknown())
`,
			``),
		Tests: "^TestRule15", Packages: inLocker,
	},
	{
		Name: "a successor that gave up keeps its entry", Rule: 15,
		Why:  "nobody holds the lock until it expires",
		File: "internal/waitqueue/succession.go",
		Edits: swap(`		s.waiter.Late(turn)
`,
			``),
		Tests: "^TestRule15", Packages: inLocker,
	},
	{
		Name: "a successor that leaves without the answer keeps its entry", Rule: 15,
		Why:  "nobody holds the lock until it expires",
		File: "internal/waitqueue/queues.go",
		Edits: swap(`		w.Late(late)
`,
			``),
		Tests: "^TestRule15", Packages: inLocker,
	},
	{
		Name: "a successor that gave up is cleaned up only after an answer", Rule: 15,
		Why:  "the handoff's reply was lost, and nobody holds the lock until it expires",
		File: "multilock/acquire.go",
		Edits: swap(`		a.discard(a.filter.Pin, a.request.ID, handoffUnknown(), false, nil)
`,
			``),
		Tests: "^TestRule15", Packages: inLocker,
	},
	{
		Name: "a waiting successor is handed the lock as a new one", Rule: 16,
		Why:  "it is not granted by the release, and the next in the document queue is not told",
		File: "internal/waitqueue/succession.go",
		Edits: swap(`w.place.taken(),`,
			`false,`),
		Tests: "^TestRule16", Packages: inLocker,
	},
	{
		Name: "a successor by compare-and-set keeps the holder's since", Rule: 17,
		Why:  "a conflict reports the arrival of the holder before it",
		File: "internal/engine/handoff.go",
		Edits: swap(`operator{"$currentDate", field(entry.since, value(true))}`,
			`operator{"$setOnInsert", field(entry.since, value(true))}`),
		Tests: "^TestASuccessorsSinceIsItsOwn$", Packages: inLocker,
	},
	{
		Name: "a release that can't be sent is taken for its answer", Rule: 0,
		Why:  "a release that the server executed is reported as lost, after the driver had no server for a moment",
		File: "internal/lease/release.go",
		Edits: swap(`		got, err = s.releaseTo(ctx, to, first)
		return err`,
			`		next, err := s.releaseTo(ctx, to, first)
		if got == (engine.Answer{}) {
			got = next
		}
		return err`),
		Tests: "^TestAttemptsThatCantBeSentSayNothing$", Packages: inHold,
	},
	{
		Name: "a handoff that can't be sent is followed by a release", Rule: 0,
		Why:  "the waiter of this process asks the server for a lock that it would have been handed",
		File: "internal/lease/handoff.go",
		Edits: swap(` && !failure.NotSent`,
			``),
		Tests: "^TestAttemptsThatCantBeSentSayNothing$", Packages: inHold,
	},
	{
		Name: "an unknown attempt is forgotten once nothing can be sent", Rule: 0,
		Why:  "an update or a delete that was executed is reported as certainly not sent",
		File: "internal/lease/ending.go",
		Edits: swap(`case unsure == nil && ctx.Err() == nil`,
			`case ctx.Err() == nil`),
		Tests: "^TestAnUnknownAttemptBeforeThoseThatCantBeSent$", Packages: inHold,
	},
}
