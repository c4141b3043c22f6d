package mutants

// storms are faults in the events that only the storm notices.
var storms = []Mutant{
	{
		Name: "a ticket whose document can't be decoded ends twice", Rule: 0,
		Why:  "one acquire counts as two",
		File: "multilock/observed.go",
		Edits: swap(`of == nil || of.over.Swap(true)`,
			`of == nil || of.over.Load() && held != nil`),
		Tests: "^TestStorm$", Packages: inStorm,
	},
	{
		Name: "a release that nobody waits for fails without a word", Rule: 0,
		Why:  "a lock stays held, and nobody knows why",
		File: "multilock/cleanup.go",
		Edits: swap(`		l.cleanup.failed(held.DocumentID(), held.Tag(), held.ID(), err)
`, ``),
		Tests: "^TestStorm$", Packages: inStorm,
	},
}
