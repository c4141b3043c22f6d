package mutants

// tokens remove the parts of rule 23: detach, resume and touch.
var tokens = []Mutant{{
	Name: "a detach goes by the id alone", Rule: 23,
	File: "internal/engine/detach.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `e.Guard(g)`,
	New: `g.Pin.and(bson.E{Key: e.path(g.Tag) + "." + idKey, Value: idValue(g.ID)})`,
}, {
	Name: "a detach does not extend", Rule: 23,
	File: "internal/engine/detach.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `{Key: expiresKey, Value: d.extended("$$e", d.held)},`,
}, {
	Name: "a detach leaves the validity", Rule: 23,
	File: "internal/lease/detach.go", Tests: "^TestRule23DetachEndsTheValidity", Packages: inHold,
	Old: `s.giveUp() // before anything is sent`,
}, {
	Name: "a shared entry is detached", Rule: 23,
	File: "internal/lease/detach.go", Tests: "^TestRule23And24SharedEntries", Packages: inHold,
	Old: `err = ofSeveral("Detach", h.Tag())`,
	New: `h.hold.renewing.lock()
		v = &verdict{done: make(chan struct{})}`,
}, {
	Name: "holders join a detached entry", Rule: 23,
	Why:  "the new holder holds what a user of the token may release",
	File: "internal/lease/sharing.go", Tests: "^TestRule23And24NobodyJoins", Packages: inHold,
	Old: `if !s.shared || s.phase != held {`,
	New: `if !s.shared || s.phase != held && s.phase != detached {`,
}, {
	Name: "a resume keeps the id", Rule: 23,
	File: "internal/engine/resume.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `resumed.fence = id,`,
	New: `resumed.fence = "$$e."+idKey,`,
}, {
	Name: "a resume keeps the fencing token", Rule: 23,
	File: "internal/engine/resume.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `call("$literal", owner), "$$next"`,
	New: `call("$literal", owner), "$$e."+fenceKey`,
}, {
	Name: "a resume does not raise lock.fence", Rule: 23,
	File: "internal/engine/resume.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `d.change("$$next", mapped(`,
	New: `d.change(d.lock+"."+fenceKey, mapped(`,
}, {
	Name: "a resume keeps the number", Rule: 23,
	File: "internal/engine/resume.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `resumed.document(), "$$e")`,
	New: `append(resumed.document(), bson.E{Key: writeKey, Value: "$$e." + writeKey}), "$$e")`,
}, {
	Name: "a resume keeps nobody out for an earlier handle", Rule: 23,
	File: "internal/engine/resume.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `call("$max", args{"$$e." + untilKey, "$$e." + expiresKey})`,
	New: `orElse("$$e."+untilKey, "$$REMOVE")`,
}, {
	Name: "a resume leaves the entry detached", Rule: 23,
	File: "internal/engine/resume.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `resumed.document(), "$$e")`,
	New: `append(resumed.document(), bson.E{Key: detachedKey, Value: "$$e." + detachedKey}), "$$e")`,
}, {
	Name: "a release by id ends a token's entry", Rule: 23,
	File: "internal/engine/leave.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `call("$gt", "$$e."+untilKey, e.serverTime()), "$$e."+tokenKey)`,
	New: `call("$gt", "$$e."+untilKey, e.serverTime()), false)`,
}, {
	Name: "a clean-up removes a token's entry", Rule: 23,
	File: "internal/engine/remove.go", Tests: "^TestRule23CleanUpSpares", Packages: inEngine,
	Old: `, {Key: tokenKey, Value: nil}}`,
	New: `}`,
}, {
	Name: "a piggybacked handoff leaves the key", Rule: 23,
	File: "internal/engine/handoff.go", Tests: "^TestRule23SuccessorsHaveNoKey$", Packages: inEngine,
	Old: `if g.Key != uuid.Nil {`,
	New: `if g.Key != uuid.Nil && g.Tag == "" {`,
}, {
	Name: "a remainder keeps the key", Rule: 23,
	File: "internal/engine/layout.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `since: "$$e." + sinceKey}`,
	New: `since: "$$e." + sinceKey, key: "$$e." + tokenKey}`,
}}
