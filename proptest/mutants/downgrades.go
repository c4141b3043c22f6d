package mutants

// downgrades remove the parts of rule 24.
var downgrades = []Mutant{
	{
		Name: "a downgrade goes by the id alone", Rule: 24,
		Why:  "a late acquire brought the id back after another holder: the entry is not the lease's",
		File: "internal/engine/downgrade.go",
		Edits: swap(`all(call("$eq", "$$e."+idKey, own), call("$eq", "$$e."+fenceKey, g.Fence))`,
			`call("$eq", "$$e."+idKey, own)`),
		Tests: "^TestRule24DowngradeMatches", Packages: inEngine,
	},
	{
		Name: "a downgrade is not judged", Rule: 24,
		Why:  "it lets itself in beside a holder that the new tag excludes",
		File: "internal/engine/downgrade.go",
		Edits: swap(`r.Kind != relations.None {`,
			`r.Kind != relations.None && d.tag == "" {`),
		Tests: "^TestRule24DowngradeIsJudged$", Packages: inEngine,
	},
	{
		Name: "a downgrade passes by waiting entries", Rule: 24,
		Why:  "it overtakes those that wait for it",
		File: "internal/engine/downgrade.go",
		Edits: swap(`nth(d.survivorsOf(tag), r.Allow)`,
			`nth(filter(d.survivorsOf(tag), "e", "$$e."+fenceKey), r.Allow)`),
		Tests: "^TestRule24DowngradeNeverWaits$", Packages: inEngine,
	},
	{
		Name: "the own entry is in a downgrade's way", Rule: 24,
		Why:  "a lease with the last place can't be downgraded to the same tag",
		File: "internal/engine/downgrade.go",
		Edits: swap(`d.survivors(nil, own)`,
			`d.survivors(nil)`),
		Tests: "^TestRule24DowngradeCounts", Packages: inEngine,
	},
	{
		Name: "a downgrade passes by unknown tags", Rule: 24,
		Why:  "two programs with different rules both hold the lock",
		File: "internal/engine/downgrade.go",
		Edits: swap(`	refused = append(refused, nth("$$strange", 0))
`,
			``),
		Tests: "^TestRule24DowngradeRespects", Packages: inEngine,
	},
	{
		Name: "a refused downgrade releases", Rule: 24,
		Why:  "the lock is released by a refusal",
		File: "internal/engine/downgrade.go",
		Edits: swap(`inPlace(from, own, bson.D{{Key: writeKey, Value: k}})`,
			`others(from, own)`),
		Tests: "^TestRule24RefusalKeeps", Packages: inEngine,
	},
	{
		Name: "a refused downgrade is not written down", Rule: 24,
		Why:  "its first attempt is executed after the holder has gone on under its old tag",
		File: "internal/engine/downgrade.go",
		Edits: swap(`bson.D{{Key: writeKey, Value: k}}`,
			`bson.D{}`),
		Tests: "^TestRule24RefusalIsNumbered$", Packages: inEngine,
	},
	{
		Name: "a downgrade does not look at the number", Rule: 24,
		Why:  "its first attempt is executed after the holder has gone on under its old tag",
		File: "internal/engine/downgrade.go",
		Edits: swap(`call("$gte", "$$own."+writeKey, k)`,
			`call("$gt", "$$own."+writeKey, k)`),
		Tests: "^TestRule24RefusalIsNumbered$", Packages: inEngine,
	},
	{
		Name: "a downgrade does not wait for until", Rule: 24,
		Why:  "others are let in before the time of HoldAtLeast",
		File: "internal/engine/downgrade.go",
		Edits: swap(`[]expr{call("$gt", "$$own."+untilKey, d.now)}`,
			`[]expr{false}`),
		Tests: "^TestRule24DowngradeWaitsForUntil$", Packages: inEngine,
	},
	{
		Name: "a repeat of a downgrade shortens", Rule: 2,
		Why:  "an older attempt arrives late and shortens the new lease",
		File: "internal/engine/resume.go",
		Edits: swap(`inPlace(d.own, id, bson.D{{Key: expiresKey, Value: d.extended("$$e", d.held)}})`,
			`inPlace(d.own, id, bson.D{{Key: expiresKey, Value: call("$add", d.now, d.held)}})`),
		Tests: "^TestRule24RepeatNeverShortens$", Packages: inEngine,
	},
	{
		Name: "a downgrade leaves the validity", Rule: 24,
		Why:  "it was executed, the answer is lost, and others are let in beside a valid lease",
		File: "internal/lease/downgrade.go",
		Edits: swap(`	s.suspended = true
`,
			``),
		Tests: "^TestRule24DowngradeEndsTheValidity", Packages: inHold,
	},
	{
		Name: "a downgrade shares the number of the next write", Rule: 24,
		Why:  "a refusal has written it down, and the write is not applied",
		File: "internal/lease/downgrade.go",
		Edits: swap(`	s.writes++
	k := s.writes
`,
			`	k := s.writes + 1
`),
		Tests: "^TestRule24DowngradeTakesANumber$", Packages: inHold,
	},
	{
		Name: "a shared entry is downgraded", Rule: 24,
		Why:  "the tag of the other holders is no longer held",
		File: "internal/lease/downgrade.go",
		Edits: swap(`	case len(s.holders) > 1:`,
			`	case len(s.holders) > 9:`),
		Tests: "^TestRule24DowngradeOfASharedEntry", Packages: inHold,
	},
	{
		Name: "holders join during a downgrade", Rule: 24,
		Why:  "the new holder holds nothing",
		File: "internal/lease/hold.go",
		Edits: swap(`s.detached || s.suspended || s.replaced {`,
			`s.detached || s.replaced {`),
		Tests: "^TestRule24NobodyJoins", Packages: inHold,
	},
	{
		Name: "holders join after a downgrade", Rule: 24,
		Why:  "the new holder holds nothing",
		File: "internal/lease/hold.go",
		Edits: swap(`s.detached || s.suspended || s.replaced {`,
			`s.detached || s.suspended {`),
		Tests: "^TestRule24NobodyJoins", Packages: inHold,
	},
	{
		Name: "the clean-up of a downgrade removes the new id first", Rule: 24,
		Why:  "the new id is removed before a late attempt makes it",
		File: "internal/lease/downgrade.go",
		Edits: append(swap(`	released := s.release(`,
			`	s.downgrades.Unanswered(s.grant.Pin, to)
	released := s.release(`),
			swap(`	s.succession.Released(s.grant)
	s.downgrades.Unanswered(s.grant.Pin, to)
`,
				`	s.succession.Released(s.grant)
`)...),
		Tests: "^TestRule24CleanUpReleasesTheOldIDFirst$", Packages: inHold,
	},
	{
		Name: "a downgrade of unknown outcome leaves the old entry", Rule: 24,
		Why:  "a late attempt makes the new entry, which nobody holds",
		File: "internal/lease/downgrade.go",
		Edits: swap(`	released := s.release(attempt.Detached(ctx), &handoff{hold: s})
`,
			`	var released error
`),
		Tests: "^TestRule24CleanUpReleasesTheOldIDFirst$", Packages: inHold,
	},
	{
		Name: "the lease of a caller who gave up a downgrade stays", Rule: 24,
		Why:  "nobody holds the new entry until it expires",
		File: "internal/lease/downgrade.go",
		Edits: swap(`			got.lease.tellDiscarded(got.lease.Release(context.Background()))
`,
			``),
		Tests: "^TestDowngradeGivenUp$", Packages: inHold,
	},
	{
		Name: "a downgrade tells no waiter", Rule: 24,
		Why:  "the waiters sleep beside a lock that lets them in",
		File: "internal/lease/downgrade.go",
		Edits: swap(`	s.succession.Released(s.grant)
	return held
`,
			`	return held
`),
		Tests: "^TestDowngradeTellsTheWaiters$", Packages: inHold,
	},
	{
		Name: "the new id of a downgrade without an answer is not removed", Rule: 24,
		Why:  "nobody holds the new entry until it expires",
		File: "multilock/downgrade.go",
		Edits: swap(`	l.cleanup.add(pin, to.Tag, leftover{id: to.ID, entries: 1, until: time.Now().Add(l.cleanup.life(to))})
`,
			`	_ = time.Now()
`),
		Tests: "^TestDowngradeWithoutAReply", Packages: inLocker,
	},
}
