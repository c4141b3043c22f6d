package mutants

// promises break a sentence of docs/guide.md, or of a doc comment that it points to.
var promises = []Mutant{{
	Name: "an acquire of what its own context holds waits",
	Why:  "it waits for ever for a lease that is released after it",
	File: "multilock/errors.go", Tests: "^TestNestedAcquire", Packages: inLocker,
	Old: `if len(a.holding) == 0 || a.filter.Pin == nil {`,
	New: `if true {`,
}, {
	Name: "sort keys are forgotten",
	Why:  "a document is locked that does not come first",
	File: "internal/engine/engine.go", Tests: "^TestSortWithoutSkipLocked$", Packages: inLocker,
	Old: `sort: sort, `,
	New: ``,
}, {
	Name: "a touch extends nothing",
	Why:  "a detached lock that is kept by Touch expires",
	File: "internal/engine/resume.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `bson.D{{Key: expiresKey, Value: d.extended("$$e", d.held)}})
	return`,
	New: `bson.D{{Key: expiresKey, Value: "$$e." + expiresKey}})
	return`,
}, {
	Name: "wrong credentials are tried again",
	Why:  "the caller learns after half a minute that its password is wrong",
	File: "internal/engine/unsent.go", Tests: "^TestWrongCredentialsAreAnErrorAtOnce$", Packages: inLocker,
	Old: `f.Passes, f.err = false,`,
	New: `f.Passes, f.err = true,`,
}, {
	Name: "an upsert makes no document",
	Why:  "a named lock can't be acquired before somebody has made its document",
	File: "internal/engine/engine.go", Tests: "^TestUpsertMakesTheDocument$", Packages: inEngine,
	Old: `err == nil && e.Upsert {`,
	New: `err == nil && false {`,
}, {
	Name: "a refusal names no holder",
	Why:  "the caller does not know who has the lock",
	File: "multilock/errors.go", Tests: "^TestTryAcquire", Packages: inLocker,
	Old: `c.Holders = append(c.Holders, h)`,
	New: `_ = h`,
}, {
	Name: "two tags of a preset ignore each other",
	Why:  "an intention to write and a shared lock are both granted",
	File: "relations/presets.go", Tests: "^TestMultiGranularityIsGraysMatrix$", Packages: inRelations,
	Old: `"IX":  {"S": incompatible, "SIX": incompatible, "X": incompatible},`,
	New: `"IX":  {"SIX": incompatible, "X": incompatible},`,
}, {
	Name: "a poller that gave up stays the poller",
	Why:  "no waiter asks, and the wait queue waits for ever",
	File: "internal/waitqueue/queues.go", Tests: "^TestThePollerHasASuccessor$", Packages: inQueue,
	Old: `d.set(w, left)
	d.remove(w)
	d.judge()`,
	New: `d.set(w, left)
	d.remove(w)`,
}, {
	Name: "a loss by time is not told",
	Why:  "nobody is alerted when two clients may work at the same time",
	File: "internal/lease/hold.go", Tests: "^TestEventsOfALeaseThatIsLeftAlone$", Packages: inHold,
	Old: `h.emitLost()`,
}, {
	Name: "a loss is logged for debugging only",
	Why:  "no log of a running program shows it",
	File: "observer.go", Tests: "^TestLevelsOfLogTo$", Packages: []string{leasePkg},
	Old: `case e.Kind == EventLost, e.Kind`,
	New: `case e.Kind`,
}, {
	Name: "majority reads are not checked", Rule: 20,
	Why:  "without majority reads no batch of renewals can be confirmed, and each lease is renewed alone for ever",
	File: "check.go", Tests: "^TestCheckServerFindsTheUnsupported$", Packages: []string{leasePkg},
	Old: `if _, _, err = e.Standing(ctx, []engine.Grant{{DocID: nowhere.Pin.ID(), Tag: tag, ID: id}}); err != nil {`,
	New: `if false {`,
}, {
	Name: "a holder's commands lack the shard key",
	Why:  "a router refuses every renewal and every release",
	File: "internal/engine/guard.go", Tests: "^(TestShardKeyPinsTheDocument|TestThroughRouters)$", Packages: inEngine,
	Old: `pin = append(pin, bson.E{Key: key, Value: v})`,
	New: `_ = v`,
}, {
	Name: "the clocks of all routers count as one",
	Why:  "a router's clock that differs by more than the tolerance is not reported",
	File: "check_clocks.go", Tests: "^TestCheckServerComparesTheClocks$", Packages: []string{leasePkg},
	Old: `server := answer.server()`,
	New: `server := ""`,
}}
