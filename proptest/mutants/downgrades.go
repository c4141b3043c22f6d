package mutants

// downgrades remove the parts of rule 24.
var downgrades = []Mutant{{
	Name: "a downgrade goes by the id alone", Rule: 24,
	File: "internal/engine/downgrade.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `all(call("$eq", "$$e."+idKey, own), call("$eq", "$$e."+fenceKey, g.Fence))`,
	New: `call("$eq", "$$e."+idKey, own)`,
}, {
	Name: "a downgrade passes by waiting entries", Rule: 24,
	Why:  "it overtakes those that wait for it",
	File: "internal/engine/downgrade.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `nth(d.survivorsOf(tag), r.Allow)`,
	New: `nth(filter(d.survivorsOf(tag), "e", "$$e."+fenceKey), r.Allow)`,
}, {
	Name: "a refused downgrade releases", Rule: 24,
	File: "internal/engine/downgrade.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `inPlace(from, own, bson.D{{Key: writeKey, Value: k}})`,
	New: `others(from, own)`,
}, {
	Name: "a refused downgrade is not written down", Rule: 24,
	File: "internal/engine/downgrade.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `bson.D{{Key: writeKey, Value: k}}`,
	New: `bson.D{}`,
}, {
	Name: "a downgrade does not wait for until", Rule: 24,
	File: "internal/engine/downgrade.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `[]expr{call("$gt", "$$own."+untilKey, d.now)}`,
	New: `[]expr{false}`,
}, {
	Name: "a downgrade leaves the validity", Rule: 24,
	File: "internal/lease/handle.go", Tests: "^TestRule24DowngradeEndsTheValidity", Packages: inHold,
	Old: `h.hold.phase == suspended`,
	New: `false`,
}, {
	Name: "a downgrade shares the number of the next write", Rule: 24,
	Why:  "a refusal has written it down, and the write is not applied",
	File: "internal/lease/downgrade.go", Tests: "^TestRule24DowngradeTakesANumber$", Packages: inHold,
	Old: `s.writes++
	k := s.writes`,
	New: `k := s.writes + 1`,
}, {
	Name: "a shared entry is downgraded", Rule: 24,
	File: "internal/lease/downgrade.go", Tests: "^TestRule23And24SharedEntries", Packages: inHold,
	Old: `case len(s.holders) > 1:`,
	New: `case len(s.holders) > 9:`,
}, {
	Name: "the clean-up of a downgrade removes the new id first", Rule: 24,
	File: "internal/lease/downgrade.go", Tests: "^TestRule24CleanUpReleasesTheOldIDFirst$", Packages: inHold,
	Old: `released := s.release(`,
	New: `s.ended(Ending{How: Abandoned, Unanswered: oneAttempt(to)})
	released := s.release(`,
	More: []Edit{{`unanswered := oneAttempt(to)`, `var unanswered []Unanswered`}},
}}
