package mutants

// commands are built or read wrongly.
var commands = []Mutant{{
	Name: "the client's clock instead of the server's",
	Why:  "clients whose clocks differ prune each other's live entries",
	File: "internal/engine/engine.go", Tests: "^TestServerKeepsTheEntryLonger$", Packages: []string{leasePkg, lockerPkg},
	Old: `var now expr = "$$NOW"
	if cfg.Now != nil {
		now = nowPlaceholder
	}`,
	New: `var now expr = nowPlaceholder
	if e.Now == nil {
		e.Now = func() time.Time { return e.Clocks().Wall }
	}`,
}, {
	Name: "a release removes all entries of its tag",
	Why:  "a reader that leaves removes the others",
	File: "internal/engine/engine.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `bson.D{{Key: "$pull", Value: bson.D{{Key: e.path(tag), Value: bson.D{{Key: idKey, Value: id}}}}}}`,
	New: `bson.D{{Key: "$set", Value: bson.D{{Key: e.path(tag), Value: bson.A{}}}}}`,
}, {
	Name: "a release that finds another fence is reported as released", Rule: 1,
	Why:  "a lost lease is reported as held throughout",
	File: "internal/engine/leave.go", Tests: "^TestRule01", Packages: inEngine,
	Old: `e.ownEntry(img, g).Fence != g.Fence`,
	New: `e.ownEntry(img, g).ID != g.ID`,
}, {
	Name: "the server keeps no tolerance",
	Why:  "a primary whose clock is ahead lets another holder in",
	File: "internal/engine/terms.go", Tests: "^TestAcquireFree$", Packages: inEngine,
	Old: `(e.LeaseBy(tag, t) + e.Tolerance).Milliseconds()`,
	New: `e.LeaseBy(tag, t).Milliseconds()`,
}, {
	Name: "a command needs one member's acknowledgement only",
	Why:  "an election rolls back a granted lock",
	File: "internal/engine/send.go", Tests: "^TestMajority$", Packages: inEngine,
	Old: `majority = value(bson.D{{Key: "w", Value: "majority"}})`,
	New: `majority = value(bson.D{{Key: "w", Value: 1}})`,
}, {
	Name: "a verdict is read without a majority", Rule: 18,
	Why:  "an election rolls back the state that proved that a write was not applied",
	File: "internal/engine/engine.go", Tests: "^TestMajority$", Packages: inEngine,
	Old: `readconcern.Majority()`,
	New: `readconcern.Local()`,
}, {
	Name: "the document is returned with its lock",
	Why:  "saving the document brings an old lock back",
	File: "internal/engine/assemble.go", Tests: "^TestDecodeLeavesTheLockOut$", Packages: inEngine,
	Old: `if e.Key() != field {`,
	New: `if e.Key() != field+"s" {`,
}}
