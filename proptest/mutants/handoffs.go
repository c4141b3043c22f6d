package mutants

// handoffs grant the lock to the wrong waiter, to none, or for too long. A
// handoff is a release and the successor's arrival or confirm, as two stages of
// one pipeline. Rules 12, 15 and 16 are about this form: see docs/protocol.md.
var handoffs = []Mutant{{
	Name: "a successor that is not granted joins as a waiter", Rule: 15,
	Why:  "an entry without a waiter blocks others",
	File: "internal/engine/handoff.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `return e.template(trying, s.Tag, s.Terms)`,
	New: `return e.template(acquiring, s.Tag, s.Terms)`,
}, {
	Name: "a waiting successor arrives again", Rule: 16,
	File: "internal/engine/handoff.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `return e.confirming(s.Request)`,
	New: `return e.template(trying, s.Tag, s.Terms)`,
}, {
	Name: "an update is piggybacked though another entry has come", Rule: 17,
	File: "internal/engine/handoff.go", Tests: "^TestRule17", Packages: inEngine,
	Old: `bson.E{Key: e.field + "." + fenceKey, Value: long(g.Alone)},`,
	New: `bson.E{Key: e.field + "." + fenceKey, Value: bson.D{{Key: "$gte", Value: g.Alone}}},`,
}, {
	Name: "an update is piggybacked by the fence alone", Rule: 17,
	File: "internal/engine/handoff.go", Tests: "^TestRule17", Packages: inEngine,
	Old:  `bson.E{Key: entry.id, Value: idValue(g.ID)},`,
	More: []Edit{{`bson.E{Key: entry.fence, Value: long(g.Fence)},`, `bson.E{Key: e.path(g.Tag), Value: bson.D{{Key: "$exists", Value: entry != nil}}},`}},
}, {
	Name: "a piggybacked update leaves no id in done", Rule: 17,
	Why:  "its reply is lost, and an applied update is reported lost",
	File: "internal/engine/handoff.go", Tests: "^TestWriteAndHandOff$", Packages: inEngine,
	Old: `e.pushDone(g),`,
}, {
	Name: "a successor's validity counts from the handoff's reply", Rule: 4,
	File: "internal/lease/handoff.go", Tests: "^TestRule04And13AHandoff", Packages: []string{lockerPkg, leasePkg},
	Old: `got, err := o.hold.commands.Handoff(ctx, o.hold.last(), *o.next)`,
	New: `got, err := o.hold.commands.Handoff(ctx, o.hold.last(), *o.next)
	first = o.hold.engine.Clocks()`,
}, {
	Name: "a successor that inherits an expiry is valid for a TTL", Rule: 17,
	File: "internal/lease/handoff.go", Tests: "^TestRule17ASuccessorInherits", Packages: []string{lockerPkg, leasePkg},
	Old: `first = s.since()`,
}, {
	Name: "a successor of unknown outcome asks by a new id", Rule: 12,
	File: "multilock/waiting.go", Tests: "^TestRule12ASuccessor", Packages: inLocker,
	Old: `s.unsure.add(handoffUnknown())`,
	New: `s = newAttempts(s.asked, s.waiter)
		s.unsure.add(handoffUnknown())`,
}, {
	Name: "a successor that gave up keeps its entry", Rule: 15,
	File: "multilock/succession.go", Tests: "^TestRule15", Packages: inLocker,
	Old: `w.Late(w, waitqueue.Step{Kind: waitqueue.Answer, Answer: e.Answer})`,
}}
