package mutants

// claims take a document that is not free, or two, or none.
var claims = []Mutant{{
	Name: "a candidate is tried by its _id alone", Rule: 26,
	File: "internal/engine/filter.go", Tests: "^TestTheTryJudgesTheCandidate$", Packages: inLocker,
	Old: `bson.A{f.doc, bson.D(pin)}`,
	New: `bson.A{bson.D(pin), bson.D(pin)}`,
}, {
	Name: "the next candidate is tried under the same id", Rule: 26,
	Why:  "a late command for the one document meets the entry in the other",
	File: "multilock/claim.go", Tests: "^TestAClaimTriesEachCandidateUnderAnIDOfItsOwn$", Packages: inLocker,
	Old: `newAttempts(a.of(filter), nil)`,
	New: `attempts{asked: a.of(filter), id: [16]byte([]byte(fmt.Sprintf("%16p", a)))}`,
}, {
	Name: "an ask of unknown outcome isn't cleaned up", Rule: 26,
	File: "multilock/claim.go", Tests: "^TestAClaimOfUnknownOutcomeHoldsOneDocument$", Packages: inLocker,
	Old: `s.cleanUp(func(err error) { cleaned <- err })`,
	New: `cleaned <- nil`,
}, {
	Name: "none is free, though a try is under way", Rule: 26,
	File: "internal/claims/queue.go", Tests: "^TestNoneMeansThatNoDocumentWasFree$", Packages: inClaims,
	Old: `case w.Once && q.trying(): // one of these may turn out to be free
			return`,
}, {
	Name: "a document that can't take the lock is forgotten", Rule: 26,
	Why:  "each claim tries it again, and one such document costs each of them a command",
	File: "internal/claims/window.go", Tests: "^TestAClaimPassesOverADocumentThatCannotTakeTheLock$", Packages: inLocker,
	Old: `w.unfit[c.key] = now + unfitFor`,
}, {
	Name: "any number of refusals in a row ends no claim", Rule: 26,
	Why:  "a claim tries each document of a collection whose validator refuses the lock",
	File: "multilock/claim.go", Tests: "^TestThreeRefusalsEndAClaim$", Packages: inLocker,
	Old: `u.row < mostInRow`,
	New: `true`,
}}
