package mutants

// values are about the caller's values, and the caller's own code.
var values = []Mutant{
	{
		Name: "the update is encoded by the command", Rule: 0,
		Why:  "a caller's later change of its map is written, and a panic in its codec ends the process",
		File: "internal/engine/update.go",
		Edits: []Edit{
			{"	opts      options.UpdateOneOptions\n}", "	opts      options.UpdateOneOptions\n	again     func()\n}"},
			{"	u.operators, err = e.operatorsOf(doc)\n",
				`	u.operators, err = e.operatorsOf(doc)
	u.again = func() {
		doc, _, _, _ := e.encoder.update(update)
		u.operators, _ = e.operatorsOf(doc)
	}
`},
			{"	update := assemble(sizeOf(u.operators)", "	u.again()\n	update := assemble(sizeOf(u.operators)"},
		},
		Tests: "^TestValuesAreEncodedOnceAndByTheirCaller$", Packages: inLocker,
	},
	{
		Name: "the filter is encoded by the command", Rule: 0,
		Why:  "a document that the caller never named is locked, and its entry stays",
		File: "internal/engine/filter.go",
		Edits: []Edit{
			{"	doc bson.Raw\n", "	doc any\n"},
			{"f := Filter{doc: doc, ", "f := Filter{doc: filter, "},
			{"return string(f.doc)", "key, _ := bson.Marshal(f.doc); return string(key)"},
		},
		Tests: "^TestAWaitersFilterIsEncodedOnce$", Packages: inLocker,
	},
	{
		Name: "encoded values are not copied", Rule: 0,
		Why:  "a caller's later change of its bytes is written",
		File: "internal/engine/encode.go",
		Edits: swap(`	case []byte:
		v = bson.Raw(t)
`,
			`	case []byte:
		return t, nil
	case bson.Raw:
		return t, nil
`),
		Tests: "^TestParsedValuesShareNothing$", Packages: inEngine,
	},
	{
		Name: "commands use the caller's registry", Rule: 0,
		Why:  "the caller's codec runs without its knowledge, and alters the library's values",
		File: "internal/engine/engine.go",
		Edits: swap(`			SetRegistry(plainRegistry).
`, `			SetRegistry(encoder.registry).
`),
		Tests: "^TestCommandsRunNoneOfTheCallersCodecs$", Packages: inEngine,
	},
	{
		Name: "values are encoded without the caller's registry", Rule: 0,
		Why:  "they are stored in another form than the caller's program reads",
		File: "internal/engine/encode.go",
		Edits: swap(`	w.SetRegistry(e.registry)
`, `	w.SetRegistry(plainRegistry)
`),
		Tests: "^TestRegistryEncodes", Packages: inEngine,
	},
	{
		Name: "a panic while a document is decoded keeps the lock", Rule: 0,
		Why:  "a caller that recovers has locked the document for a TTL, without a lease",
		File: "multilock/grant.go",
		Edits: swap(`		if err := l.engine.Decode(img, into); err != nil {
`, `		decoded = true
		err := l.engine.Decode(img, into)
		if decoded = err == nil; !decoded {
`),
		Tests: "^TestAPanicInIntoIsTheCallers$", Packages: inLocker,
	},
	{
		Name: "a panic while a document is decoded keeps the ticket's turn", Rule: 0,
		Why:  "the next use of the ticket waits for ever",
		File: "multilock/ticket.go",
		Edits: swap(`		<-t.turn
		held, err := t.handOver()
		return held, false, err
	}
	refused`, `		held, err := t.handOver()
		<-t.turn
		return held, false, err
	}
	refused`),
		Tests: "^TestAPanicInIntoIsTheCallers$", Packages: inLocker,
	},
}
