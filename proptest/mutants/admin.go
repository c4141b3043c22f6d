package mutants

// operators are faults of what an operator sees and removes.
var operators = []Mutant{{
	Name: "a broken entry is matched by its id alone", Rule: 1,
	Why:  "an operator breaks a lease that was granted after the look",
	File: "internal/engine/exact.go", Tests: "^TestBreakLeavesAnEntryThatHasChanged$", Packages: inAdmin,
	Old: `entry := bson.D{{Key: idKey, Value: idValue(x.ID)}, {Key: fenceKey, Value: fence}}`,
	New: `_ = fence
	entry := bson.D{{Key: idKey, Value: idValue(x.ID)}}`,
}, {
	Name: "a sweep removes what was extended since",
	Why:  "a sweep ends a lease that was renewed after the look",
	File: "internal/engine/exact.go", Tests: "^TestSweepLeavesAnEntryThatIsExtendedMeanwhile$", Packages: inAdmin,
	Old: `entry = append(entry, bson.E{Key: expiresKey, Value: x.Expired})`,
}, {
	Name: "a document with other fields is deleted",
	Why:  "the user's data are destroyed",
	File: "internal/engine/exact.go", Tests: "^TestDeleteIdle$", Packages: inAdmin,
	Old: `call("$eq", count("$$ROOT"), call("$add", fields...)),`,
	New: `call("$gte", count("$$ROOT"), call("$add", fields...)),`,
}, {
	Name: "a document with ids in done is deleted", Rule: 18,
	Why:  "a last write that was applied is reported as not applied",
	File: "internal/engine/exact.go", Tests: "^TestDeleteIdle$", Packages: inAdmin,
	Old: `call("$eq", count(d.lock), call("$add", 1, present(d.lock+"."+tagsKey))),`,
}, {
	Name: "a query chooses documents only",
	Why:  "the entries of others in the same document are listed, and released with the owner's",
	File: "admin/entries.go", Tests: "^(TestQueries|TestRemove)$", Packages: inAdmin,
	Old: `e.Owner == q.Owner) &&`,
	New: `e.Owner != "") &&`,
}}
