package mutants

// options accept values that can't be honoured.
var options = []Mutant{
	{
		Name: "a TTL without a bound", Rule: 0,
		Why:  "the stored expiry overflows into the past, and two leases are valid",
		File: "options.go",
		Edits: swap(`within("TTL", d, MinTTL, MaxTTL)`,
			`within("TTL", d, MinTTL, 1<<63-1)`),
		Tests: "^TestEveryDurationIsKeptOrRefused$", Packages: inLocker,
	},
	{
		Name: "a tolerance without a bound", Rule: 0,
		Why:  "the stored expiry overflows into the past, and two leases are valid",
		File: "options.go",
		Edits: swap(`within("ClockTolerance", d, 0, MaxClockTolerance)`,
			`within("ClockTolerance", d, 0, 1<<63-1)`),
		Tests: "^TestEveryDurationIsKeptOrRefused$", Packages: inLocker,
	},
	{
		Name: "a tag's place is searched in a list", Rule: 0,
		Why:  "New grows with the cube of the tags: 16 s for 300",
		File: "internal/engine/expr.go",
		Edits: swap(`d.place[tag])`,
			`slices.Index(d.rules.Tags(), tag))`),
		Tests: "^TestNewGrowsWithTheSquareOfTheTags$", Packages: inEngine,
	},
}
