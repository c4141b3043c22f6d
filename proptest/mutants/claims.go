package mutants

// claims take a document that is not free, or two, or none.
var claims = []Mutant{
	{
		Name: "a candidate is tried by its _id alone", Rule: 26,
		Why:  "a document is claimed that doesn't match any more",
		File: "internal/engine/filter.go",
		Edits: swap(`bson.A{f.doc, bson.D(pin)}`,
			`bson.A{bson.D(pin), bson.D(pin)}`),
		Tests: "^TestTheTryJudgesTheCandidate$", Packages: inLocker,
	},
	{
		Name: "the next candidate is tried under the same id", Rule: 26,
		Why:  "a late command for the one document meets the entry in the other",
		File: "multilock/claim.go",
		Edits: swap(`	a.renamed()
`,
			``),
		Tests: "^TestAClaimTriesEachCandidateUnderAnIDOfItsOwn$", Packages: inLocker,
	},
	{
		Name: "an ask of unknown outcome isn't cleaned up", Rule: 26,
		Why:  "one claim locks two documents",
		File: "multilock/claim.go",
		Edits: swap(`a.discard(a.filter.Pin, a.request.ID, a.unsure, false, func(err error) { cleaned <- err })`,
			`cleaned <- nil`),
		Tests: "^TestAnAskOfUnknownOutcomeLeavesNoEntry$", Packages: inLocker,
	},
	{
		Name: "a look-up shows locked documents", Rule: 0,
		Why:  "the locked documents at the head hide the free ones",
		File: "internal/engine/candidates.go",
		Edits: swap(`call("$ne", "$"+e.field, "$"+wasKey)`,
			`call("$ne", "$"+e.field, 1)`),
		Tests: "^TestClaimsSkipLockedDocuments$", Packages: inLocker,
	},
	{
		Name: "a claimant that was served gets another candidate", Rule: 0,
		Why:  "the document is skipped until the next look-up",
		File: "internal/claims/claims.go",
		Edits: swap(`	if outcome == Granted { // it wants nothing more`,
			`	if outcome == Granted && c == nil {`),
		Tests: "^TestClaimsSkipLockedDocuments$", Packages: inLocker,
	},
	{
		Name: "a release wakes no claim", Rule: 0,
		Why:  "a document that was released here is claimed after the next pause only",
		File: "multilock/claim.go",
		Edits: swap(`	s.claims.Released()
`,
			``),
		Tests: "^TestAReleaseWakesAClaim$", Packages: inLocker,
	},
	{
		Name: "no claim polls after another's look", Rule: 0,
		Why:  "the claims wait for ever, and free documents stand",
		File: "internal/claims/queue.go",
		Edits: swap(`	q.judge(now)
	q.wakePoller()
`,
			`	q.judge(now)
`),
		Tests: "^TestEachClaimGetsADocument$", Packages: inClaims,
	},
	{
		Name: "Close doesn't end a claim that cleans up", Rule: 0,
		Why:  "Close waits for a command of the clean-up",
		File: "multilock/claim.go",
		Edits: swap(`	case <-a.locker.ops.Closing():
		return doclock.ErrClosed
`,
			``),
		Tests: "^TestCloseEndsAClaimThatCleansUp$", Packages: inLocker,
	},
}
