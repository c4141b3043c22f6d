package mutants

// commands are put together or read wrongly.
var commands = []Mutant{
	{
		Name: "the client's clock instead of the server's", Rule: 0,
		Why:  "clients whose clocks differ prune each other's live entries",
		File: "internal/engine/engine.go",
		Edits: swap(`	var now expr = "$$NOW"
	if cfg.Now != nil {
		now = nowPlaceholder
	}`,
			`	var now expr = nowPlaceholder
	if e.Now == nil {
		e.Now = func() time.Time { return e.Clocks().Wall }
	}`),
		Tests: "^TestServerKeepsTheEntryLonger$", Packages: []string{leasePkg, lockerPkg},
	},
	{
		Name: "a release removes all entries of its tag", Rule: 0,
		Why:  "a reader that leaves throws the others out",
		File: "internal/engine/engine.go",
		Edits: swap(`bson.D{{Key: "$pull", Value: bson.D{{Key: e.path(tag), Value: bson.D{{Key: idKey, Value: id}}}}}}`,
			`bson.D{{Key: "$set", Value: bson.D{{Key: e.path(tag), Value: bson.A{}}}}}`),
		Tests: "^TestReleaseLeavesTheRest$", Packages: inEngine,
	},
	{
		Name: "a release goes by the owner, not by the id", Rule: 0,
		Why:  "one program's leases of a document release each other",
		File: "internal/engine/engine.go",
		Edits: swap(`Value: bson.D{{Key: idKey, Value: id}}}}}}`,
			`Value: bson.D{{Key: ownerKey, Value: cfg.Owner}}}}}}`),
		Tests: "^TestReleaseLeavesTheRest$", Packages: inEngine,
	},
	{
		Name: "a release that finds another token is reported as released", Rule: 1,
		Why:  "a lost lease is told to have been held throughout",
		File: "internal/engine/engine.go",
		Edits: swap(`if e.ownEntry(raw, g).Fence != g.Fence {`,
			`if e.ownEntry(raw, g).ID != g.ID {`),
		Tests: "^TestRule01", Packages: inEngine,
	},
	{
		Name: "the server keeps no tolerance", Rule: 0,
		Why:  "a primary whose clock is ahead lets others in beside the holder",
		File: "internal/engine/engine.go",
		Edits: swap(`(cfg.Lease(tag) + cfg.Tolerance).Milliseconds()`,
			`cfg.Lease(tag).Milliseconds()`),
		Tests: "^TestAcquireFree$", Packages: inEngine,
	},
	{
		Name: "a command is content with one member's acknowledgement", Rule: 0,
		Why:  "an election rolls a granted lock back",
		File: "internal/engine/engine.go",
		Edits: swap(`writeconcern.Majority()`,
			`writeconcern.W1()`),
		Tests: "^TestMajority$", Packages: inEngine,
	},
	{
		Name: "the verdict is not a majority's", Rule: 18,
		Why:  "an election takes back what said that a write was not applied",
		File: "internal/engine/engine.go",
		Edits: swap(`readconcern.Majority()`,
			`readconcern.Local()`),
		Tests: "^TestMajority$", Packages: inEngine,
	},
	{
		Name: "the document is handed out with its lock", Rule: 0,
		Why:  "saving it back brings an old lock back",
		File: "internal/engine/assemble.go",
		Edits: swap(`if e.Key() != field {`,
			`if e.Key() != field+"s" {`),
		Tests: "^TestDecodeLeavesTheLockOut$", Packages: inEngine,
	},
	{
		Name: "the time to try again is that of the last holder", Rule: 0,
		Why:  "a waiter for a semaphore sleeps past the first free seat",
		File: "internal/engine/conflict.go",
		Edits: swap(`entries[len(entries)-1-allow].Expires`,
			`entries[len(entries)-1].Expires`),
		Tests: "^TestAcquireAllows$", Packages: inEngine,
	},
}
