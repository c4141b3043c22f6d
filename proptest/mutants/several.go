package mutants

// several breaks the locking of several documents.
var several = []Mutant{
	{
		Name: "several documents are locked in the order of the arguments", Rule: 0,
		Why:  "two transfers, there and back, wait for each other for ever",
		File: "multilock/lockorder.go",
		Edits: swap(`	slices.SortStableFunc(all, byLock)
`, ``),
		Tests: "^TestAcquireAllGoesInOneOrder$", Packages: inLocker,
	},
	{
		Name: "numbers of several types are ordered by their bytes", Rule: 0,
		Why:   "two callers that write an _id in two ways lock in two orders",
		File:  "internal/bsonvalue/compare.go",
		Edits: swap(`return compareNumbers(a, b)`, `return cmp.Or(cmp.Compare(a.Type, b.Type), bytes.Compare(a.Value, b.Value))`),
		Tests: "^TestCompare$|^TestTheOrderIsTheServers$", Packages: []string{"./internal/bsonvalue", lockerPkg},
	},
	{
		Name: "a decimal is compared by its digits alone", Rule: 0,
		Why:  "two callers lock in two orders",
		File: "internal/bsonvalue/number.go",
		Edits: swap(`	if exponent < 0 {
`, `	if exponent < -400 {
`),
		Tests: "^TestTheOrderIsTheServers$", Packages: []string{"./internal/bsonvalue"},
	},
	{
		Name: "two tags of one document in one set", Rule: 0,
		Why:  "a caller waits for itself, or two for each other",
		File: "multilock/lockorder.go",
		Edits: swap(`		if !first.equals(w) {
`, `		if !first.equals(w) && first.locker == nil {
`),
		Tests: "^TestAcquireAllRefusesBadInput$", Packages: inLocker,
	},
	{
		Name: "the target of one equal want only", Rule: 0,
		Why:   "a caller works with a document that it was never given",
		File:  "multilock/want.go",
		Edits: swap("	w.into = append(w.into, other.into...)\n", ""),
		Tests: "^TestEqualWantsAreOneLease$", Packages: inLocker,
	},
	{
		Name: "a failure in the middle keeps the earlier leases", Rule: 0,
		Why:   "documents stay locked for a TTL, without a lease",
		File:  "multilock/several.go",
		Edits: swap(`		if !all { // or`, `		if !all && len(held) == 0 { // or`),
		Tests: "^TestAFailureInTheMiddleLeavesNothing$", Packages: inLocker,
	},
	{
		Name: "a failure in the middle leaves the remainders of the earlier leases", Rule: 25,
		Why:   "others, and the next try, are kept out though no job ran",
		File:  "multilock/several.go",
		Edits: swap("			held.unused()\n", ""),
		Tests: "^TestRule25WhatNobodyHeldLeavesNothing$", Packages: inLocker,
	},
	{
		Name: "earlier leases expire during the wait for later ones", Rule: 0,
		Why:   "a set whose last document is busy is never had",
		File:  "multilock/several.go",
		Edits: swap("		kept = got.KeepAlive(kept)\n", ""),
		Tests: "^TestEarlierLeasesAreRenewedDuringTheWait$", Packages: inLocker,
	},
	{
		Name: "a loss during the wait is the wait's end", Rule: 0,
		Why:   "the caller is told that its context was cancelled, and which lease was lost is left out",
		File:  "multilock/several.go",
		Edits: swap(`				err = orLost(ordered, held, err)`, `				_ = orLost(ordered, held, err)`),
		Tests: "^TestALossDuringTheWait$", Packages: inLocker,
	},
	{
		Name: "the joint context ends with the first release", Rule: 0,
		Why:   "the second of two writes that release is cancelled",
		File:  "internal/lease/joint.go",
		Edits: swap(`errors.Is(cause, ErrLost) {`, `!errors.Is(cause, context.Canceled) {`),
		Tests: "^TestTheJointContextOutlivesARelease$", Packages: inLocker,
	},
	{
		Name: "the joint context outlives a loss", Rule: 0,
		Why:   "fn works on although others were let in",
		File:  "internal/lease/joint.go",
		Edits: swap(`errors.Is(cause, ErrLost) {`, `errors.Is(cause, ErrLost) && len(j.holders) == 1 {`),
		Tests: "^TestOneLossEndsTheJointContext$", Packages: inLocker,
	},
	{
		Name: "after a loss the other leases are not renewed", Rule: 0,
		Why:   "what fn undoes under them is refused",
		File:  "internal/lease/joint.go",
		Edits: swap(`		h.KeepAlive(ctx)`, `		h.KeepAlive(inner)`),
		Tests: "^TestOneLossEndsTheJointContext$", Packages: inLocker,
	},
	{
		Name: "a lease's command is cancelled by the lease's end", Rule: 0,
		Why:   "a last write that was applied is reported as of unknown outcome",
		File:  "internal/lease/joint.go",
		Edits: swap(`return h.outer(j.outer)`, `return j.Context.Value(key)`),
		Tests: "^TestTheJointContextOutlivesARelease$", Packages: inLocker,
	},
	{
		Name: "after a loss the other leases are not released", Rule: 0,
		Why:  "their documents stay locked for a TTL",
		File: "multilock/leases.go",
		Edits: swap(`	for i, h := range handles {
`, `	for i, h := range handles {
		if slices.ContainsFunc(handles, func(h *lease.Handle) bool { return h.Err() == doclock.ErrLost }) {
			break
		}
`),
		Tests: "^TestOneLossEndsTheJointContext$", Packages: inLocker,
	},
	{
		Name: "several are released in fn's own context", Rule: 0,
		Why:  "a caller whose context has ended never learns of a loss",
		File: "multilock/several.go",
		Edits: swap(`		released := leases.Release(attempt.Detached(ctx))`, `		_ = attempt.Detached
		released := leases.Release(ctx)`),
		Tests: "^TestDoAllReleasesAfterItsContextHasEnded$", Packages: inLocker,
	},
	{
		Name: "a loss ends Lead", Rule: 0,
		Why:   "after a hiccup nobody leads any more",
		File:  "writelock/lead.go",
		Edits: swap(`!lost && !errors.Is(err, doclock.ErrLost)):`, `(led || lost)):`),
		Tests: "^TestLeadCampaignsAgainAfterALoss$", Packages: inWriteLock,
	},
	{
		Name: "Lead goes on after fn's return", Rule: 0,
		Why:   "work that is done is done again, or an error is never seen",
		File:  "writelock/lead.go",
		Edits: swap(`!lost && !errors.Is(err, doclock.ErrLost)):`, `lost && ctx.Err() != nil):`),
		Tests: "^TestLeadersComeOneAfterTheOther$", Packages: inWriteLock,
	},
	{
		Name: "the end of its context in a pause is left out", Rule: 0,
		Why:   "a caller that stops the campaign takes it for a failure",
		File:  "writelock/lead.go",
		Edits: swap(`oneline.Join(err, attempt.Ended(ctx))`, `oneline.Join(err, errors.Unwrap(attempt.Ended(context.Background())))`),
		Tests: "^TestLeadEndsWithItsContextBetweenTwoTries$", Packages: inWriteLock,
	},
	{
		Name: "an unreachable server ends Lead", Rule: 0,
		Why:   "after an outage nobody leads any more",
		File:  "writelock/lead.go",
		Edits: swap(`(failure.NotSent || !failure.Certain || failure.Again)`, `failure.Again`),
		Tests: "^TestLeadOutlivesAnUnreachableServer$", Packages: inWriteLock,
	},
}
