package mutants

// writes are the guarded ones.
var writes = []Mutant{{
	Name: "guard without the id", Rule: 1,
	Why:  "after the document was made again, an outside writer's entry with the same fence lets a late write pass",
	File: "internal/engine/guard.go", Tests: "^TestRule01", Packages: []string{enginePkg, leasePkg},
	Old: `bson.D{{Key: idKey, Value: idValue(g.ID)}, {Key: fenceKey, Value: g.Fence}}`,
	New: `bson.D{{Key: fenceKey, Value: g.Fence}}`,
}, {
	Name: "guard without the fence", Rule: 1,
	File: "internal/engine/guard.go", Tests: "^TestRule01", Packages: []string{enginePkg, leasePkg},
	Old: `bson.D{{Key: idKey, Value: idValue(g.ID)}, {Key: fenceKey, Value: g.Fence}}`,
	New: `bson.D{{Key: idKey, Value: idValue(g.ID)}}`,
}, {
	Name: "a write's number is not recorded", Rule: 14,
	File: "internal/engine/guard.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `writeKey, long(k))})`,
	New: `writeKey, long(0*k))})`,
}, {
	Name: "a write's number is checked for equality only", Rule: 14,
	Why:  "a late duplicate of the first write is applied after the second",
	File: "internal/engine/guard.go", Tests: "^TestRule14AWriteIsAppliedOnce$", Packages: []string{leasePkg, enginePkg},
	Old: `{Key: "$gte", Value: k}`,
	New: `{Key: "$eq", Value: k}`,
}, {
	Name: "the last write's id is not pushed to done", Rule: 18,
	Why:  "an applied write is reported lost",
	File: "internal/engine/engine.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `{Key: "$each", Value: args{id}}`,
	New: `{Key: "$each", Value: args{}}`,
}, {
	Name: "a last write leaves the entry",
	Why:  "no other holder is let in until the entry expires",
	File: "internal/engine/guard.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `field(e.path(g.Tag), e.byID.fill(g.ID, time.Time{}).value())`,
	New: `field(e.path(g.Tag), e.byID.fill(g.LastDone, time.Time{}).value())`,
}, {
	Name: "an unknown write is reported lost too", Rule: 18,
	Why:  "a caller that tests for a loss first repeats a write that may have been applied",
	File: "internal/lease/ending.go", Tests: "^TestAWriteHasOneVerdict$", Packages: inLease,
	Old: `err = unknown("update", unsure)
	}
	_ =`,
	New: `err = errors.Join(ErrLost, unknown("update", unsure))
	}
	_ =`,
}, {
	Name: "Do takes the verdict on a write for one on its lock",
	Why:  "nobody knows whether to undo what the function did",
	File: "multilock/errors.go", Tests: "^TestDoReturnsOneVerdict$", Packages: inLocker,
	Old: `oneline.Join(only(nil, returned), released)`,
	New: `oneline.Join(returned, released)`,
}, {
	Name: "a release that is not executed says nothing of the lock",
	Why:  "others were let in while the function worked, and its writes are not undone",
	File: "internal/lease/errors.go", Tests: "^TestReleaseThatIsNotExecuted$", Packages: inHold,
	Old: `case s.left() <= 0:`,
	New: `case false:`,
}, {
	Name: "absence from a full done counts as a proof", Rule: 18,
	Why:  "an applied write is reported not applied once eight others came after",
	File: "internal/lease/write.go", Tests: "^TestRule18AbsenceFromDone$", Packages: inLease,
	Old: `return len(img.Lock.Done) < engine.DoneCap`,
	New: `return true`,
}, {
	Name: "absence from an erased done counts as a proof", Rule: 18,
	File: "internal/lease/write.go", Tests: "^TestRule18AbsenceFromDone$", Packages: inLease,
	Old: `img == nil || img.Lock.Fence < g.Fence`,
	New: `img == nil`,
}, {
	Name: "the newest id at the grant is not checked", Rule: 18,
	Why:  "an applied write is reported not applied once eight others came after",
	File: "internal/lease/write.go", Tests: "^TestVerdictsOfVectors$", Packages: inHold,
	Old: `return img.Lock.FinishedBy(g.LastDone)`,
	New: `return true`,
}, {
	Name: "a delete does not end the lease", Rule: 13,
	Why:  "the lease is valid although the document does not exist, or belongs to another holder",
	File: "internal/lease/ending.go", Tests: "^TestDeleteEndsTheLease$", Packages: inLease,
	Old: `s.giveUp() // before anything is sent`,
	New: `if c.name != "delete" {
		s.giveUp()
	}`,
}}
