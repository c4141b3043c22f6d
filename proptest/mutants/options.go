package mutants

// options take what can't be kept.
var options = []Mutant{
	{
		Name: "a TTL without a bound", Rule: 0,
		Why:  "the stored expiry overflows into the past, and two holders believe",
		File: "options.go",
		Edits: swap(`within("TTL", d, MinTTL, MaxTTL)`,
			`within("TTL", d, MinTTL, 1<<63-1)`),
		Tests: "^TestEveryDurationIsKeptOrRefused$", Packages: inLocker,
	},
	{
		Name: "a tolerance without a bound", Rule: 0,
		Why:  "the stored expiry overflows into the past, and two holders believe",
		File: "options.go",
		Edits: swap(`within("ClockTolerance", d, 0, MaxClockTolerance)`,
			`within("ClockTolerance", d, 0, 1<<63-1)`),
		Tests: "^TestEveryDurationIsKeptOrRefused$", Packages: inLocker,
	},
	{
		Name: "a tag's place is looked for in a list", Rule: 0,
		Why:  "New grows with the cube of the tags: 16 s for 300",
		File: "internal/engine/expr.go",
		Edits: swap(`d.place[tag])`,
			`slices.Index(d.rules.Tags(), tag))`),
		Tests: "^TestNewGrowsWithTheSquareOfTheTags$", Packages: inEngine,
	},
}
