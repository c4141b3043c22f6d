package mutants

// commands are built or read wrongly.
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
		Why:  "a reader that leaves removes the others",
		File: "internal/engine/engine.go",
		Edits: swap(`bson.D{{Key: "$pull", Value: bson.D{{Key: e.path(tag), Value: bson.D{{Key: idKey, Value: id}}}}}}`,
			`bson.D{{Key: "$set", Value: bson.D{{Key: e.path(tag), Value: bson.A{}}}}}`),
		Tests: "^TestReleaseLeavesTheRest$", Packages: inEngine,
	},
	{
		Name: "a release matches the owner, not the id", Rule: 0,
		Why:  "one program's leases of a document release each other",
		File: "internal/engine/engine.go",
		Edits: swap(`Value: bson.D{{Key: idKey, Value: id}}}}}}`,
			`Value: bson.D{{Key: ownerKey, Value: cfg.Owner}}}}}}`),
		Tests: "^TestReleaseLeavesTheRest$", Packages: inEngine,
	},
	{
		Name: "a release that finds another fence is reported as released", Rule: 1,
		Why:  "a lost lease is reported as held throughout",
		File: "internal/engine/leave.go",
		Edits: swap(`case e.ownEntry(raw, g).Fence == g.Fence:`,
			`case e.ownEntry(raw, g).ID == g.ID:`),
		Tests: "^TestRule01", Packages: inEngine,
	},
	{
		Name: "the server keeps no tolerance", Rule: 0,
		Why:  "a primary whose clock is ahead lets another holder in",
		File: "internal/engine/terms.go",
		Edits: swap(`(e.LeaseBy(tag, t) + e.Tolerance).Milliseconds()`,
			`e.LeaseBy(tag, t).Milliseconds()`),
		Tests: "^TestAcquireFree$", Packages: inEngine,
	},
	{
		Name: "a command needs one member's acknowledgement only", Rule: 0,
		Why:  "an election rolls back a granted lock",
		File: "internal/engine/engine.go",
		Edits: swap(`writeconcern.Majority()`,
			`writeconcern.W1()`),
		Tests: "^TestMajority$", Packages: inEngine,
	},
	{
		Name: "a verdict is read without a majority", Rule: 18,
		Why:  "an election rolls back the state that proved that a write was not applied",
		File: "internal/engine/engine.go",
		Edits: swap(`readconcern.Majority()`,
			`readconcern.Local()`),
		Tests: "^TestMajority$", Packages: inEngine,
	},
	{
		Name: "the document is returned with its lock", Rule: 0,
		Why:  "saving the document brings an old lock back",
		File: "internal/engine/assemble.go",
		Edits: swap(`if e.Key() != field {`,
			`if e.Key() != field+"s" {`),
		Tests: "^TestDecodeLeavesTheLockOut$", Packages: inEngine,
	},
	{
		Name: "the time to try again is the last holder's expiry", Rule: 0,
		Why:  "a waiter for a semaphore sleeps past the first free slot",
		File: "internal/engine/conflict.go",
		Edits: swap(`entries[len(entries)-1-allow].Expires`,
			`entries[len(entries)-1].Expires`),
		Tests: "^TestAcquireAllows$", Packages: inEngine,
	},
}
