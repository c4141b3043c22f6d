package mutants

// several breaks the locking of several documents.
var several = []Mutant{{
	Name: "several documents are locked in the order of the arguments",
	Why:  "two transfers, there and back, wait for each other for ever",
	File: "multilock/want.go", Tests: "^TestAcquireAllGoesInOneOrder$", Packages: inLocker,
	Old: `slices.SortStableFunc(all, byLock)`,
}, {
	Name: "a failure in the middle keeps the earlier leases",
	Why:  "documents stay locked for a TTL, without a lease",
	File: "multilock/several.go", Tests: "^TestAFailureInTheMiddleLeavesNothing$", Packages: inLocker,
	Old: `if !all { // or`,
	New: `if !all && len(held) == 0 { // or`,
}, {
	Name: "several are released in fn's own context",
	Why:  "a caller whose context has ended never learns of a loss",
	File: "multilock/several.go", Tests: "^TestOneLossEndsTheJointContext$", Packages: inLocker,
	Old: `err = beside(err, leases.Release(attempt.Detached(ctx)))`,
	New: `_ = attempt.Detached
		err = beside(err, leases.Release(ctx))`,
}, {
	Name: "a loss ends Lead",
	Why:  "after a hiccup nobody leads any more",
	File: "writelock/lead.go", Tests: "^TestLeadCampaignsAgainAfterALoss$", Packages: inWriteLock,
	Old: `!lost && !errors.Is(err, doclock.ErrLost)):`,
	New: `(led || lost)):`,
}}
