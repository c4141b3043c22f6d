package mutants

// relationRules analyse, check or preset rules wrongly.
var relationRules = []Mutant{
	{
		Name: "starvation: an overtaker may ignore itself", Rule: 0,
		Why:  "a tag that can't starve is reported",
		File: "relations/analysis.go",
		Edits: swap(`return r.ignores(z, z, rel.Allow)`,
			`return r.ignores(z, z, 0)`),
		Tests: "^TestStarvationsAreThoseOfTheSearch_AllTwoTagTables$", Packages: inRelations,
	},
	{
		Name: "starvation: a crowd may be too large for its tag", Rule: 0,
		Why:  "a tag that can't starve is reported",
		File: "relations/analysis.go",
		Edits: swap(`self.Kind == Cooperative && self.Allow+1 < next.n`,
			`self.Kind == Cooperative && self.Allow+2 < next.n`),
		Tests: "^(TestCrowdThatIsTooLargeForItsTagStopsNobody|TestStarvationsAreThoseOfTheSearch_AllTwoTagTables)$", Packages: inRelations,
	},
	{
		Name: "starvation: waiters in the queue may refuse each other", Rule: 0,
		Why:  "a tag that can't starve is reported",
		File: "relations/analysis.go",
		Edits: swap(`rel.Kind == Cooperative && rel.Allow < next.n`,
			`rel.Kind == None && rel.Allow < 0`),
		Tests: "^TestStarvationsAreThoseOfTheSearch_SomeFourTagTables$", Packages: inRelations,
	},
	{
		Name: "starvation: no tag is refused for ever", Rule: 0,
		Why:  "a tag that can starve is not reported",
		File: "relations/analysis.go",
		Edits: swap(`if r[x][z].Kind == Cooperative && r.canStandInTheWay(x, z) {`,
			`if r[x][z].Kind == Cooperative && r.canStandInTheWay(x, z) && x != z {`),
		Tests: "^TestPresetsStarveWhomTheirCommentsSay$", Packages: inRelations,
	},
	{
		Name: "a semaphore of n lets n+1 in", Rule: 0,
		Why:  "there is one holder too many",
		File: "relations/presets.go",
		Edits: swap(`Allow: max(n, 0) - 1}`,
			`Allow: max(n, 0)}`),
		Tests: "^TestPresetsBehaveAsTheirCommentsSay$", Packages: inRelations,
	},
	{
		Name: "two tags of a preset ignore each other", Rule: 0,
		Why:  "an intention to write and a shared lock are both granted",
		File: "relations/presets.go",
		Edits: swap(`"IX":  {"S": incompatible, "SIX": incompatible, "X": incompatible},`,
			`"IX":  {"SIX": incompatible, "X": incompatible},`),
		Tests: "^TestMultiGranularityIsGraysMatrix$", Packages: inRelations,
	},
	{
		Name: "a relation to an unknown tag is accepted", Rule: 0,
		Why:  "no tag respects a misspelt tag",
		File: "relations/validate.go",
		Edits: swap(`if _, known := r[y]; !known {`,
			`if _, known := r[y]; !known && rel.Kind == None {`),
		Tests: "^TestValidateNamesEveryFault$", Packages: inRelations,
	},
}
