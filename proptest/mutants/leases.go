package mutants

// leases believe too long, or say what isn't so.
var leases = []Mutant{
	{
		Name: "validity counts from the renewal's reply", Rule: 4,
		Why:  "a contender enters while the holder still believes",
		File: "internal/lease/handle.go",
		Edits: swap(`outcome, err = send(ctx)`,
			`outcome, err = send(ctx)
		sent = l.engine.Clocks()`),
		Tests: "^TestRule04AnchoredAtTheSend$", Packages: inLease,
	},
	{
		Name: "the holder believes for the tolerance too", Rule: 0,
		Why:  "the tolerance covers nothing: clocks that differ let others in beside the holder",
		File: "internal/lease/leases.go",
		Edits: swap(`ttl: ls.engine.Lease(g.Tag)}`,
			`ttl: ls.engine.Lease(g.Tag) + ls.engine.Tolerance}`),
		Tests: "^TestBeliefEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "the wall clock is not looked at", Rule: 0,
		Why:  "a machine that was suspended believes in a lease of yesterday",
		File: "internal/lease/validity.go",
		Edits: swap(`max(now.Mono-v.from.Mono, now.Wall.Sub(v.from.Wall))`,
			`now.Mono - v.from.Mono`),
		Tests: "^TestBeliefEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "the monotonic clock is not looked at", Rule: 0,
		Why:  "a wall clock that was set back makes a lease longer",
		File: "internal/lease/validity.go",
		Edits: swap(`max(now.Mono-v.from.Mono, now.Wall.Sub(v.from.Wall))`,
			`now.Wall.Sub(v.from.Wall)`),
		Tests: "^TestBeliefEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "the server's resolution is not taken off", Rule: 0,
		Why:  "the belief ends up to a millisecond after the entry",
		File: "internal/lease/validity.go",
		Edits: swap(`return v.ttl - resolution - passed`,
			`return v.ttl - passed`),
		Tests: "^TestBeliefEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "a renewal is sent after the local end", Rule: 0,
		Why:  "a lease that was over is revived at the server",
		File: "internal/lease/handle.go",
		Edits: swap(`	if err := l.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.Remaining())
	defer cancel()
	var outcome engine.Outcome
	var sent engine.Reading
	_, err := attempt.Settle(ctx, l.engine.Attempt(l.grant.Tag), func(ctx context.Context) (err error) {
		sent = l.engine.Clocks()
		ctx, cancel := context.WithTimeout(ctx, l.Remaining())`,
			`	ctx, cancel := context.WithTimeout(ctx, l.kept())
	defer cancel()
	var outcome engine.Outcome
	var sent engine.Reading
	_, err := attempt.Settle(ctx, l.engine.Attempt(l.grant.Tag), func(ctx context.Context) (err error) {
		sent = l.engine.Clocks()
		ctx, cancel := context.WithTimeout(ctx, l.kept())`),
		Tests: "^TestRenewNeverRevives$", Packages: inLease,
	},
	{
		Name: "a renewal that was answered after the end is reported as renewed", Rule: 4,
		Why:  "the caller goes on with a lease that is over",
		File: "internal/lease/handle.go",
		Edits: swap(`	l.extend(validity{from: sent, ttl: l.engine.Lease(l.grant.Tag)})
	return l.Err()`,
			`	l.extend(validity{from: sent, ttl: l.engine.Lease(l.grant.Tag)})
	return nil`),
		Tests: "^TestRenewAnsweredAfterTheEnd$", Packages: inLease,
	},
	{
		Name: "a loss that a renewal finds is not told", Rule: 0,
		Why:  "the holder works on until its time is up",
		File: "internal/lease/handle.go",
		Edits: swap(`	if outcome == engine.Lost {
		l.lose()
		return ErrLost`,
			`	if outcome == engine.Lost {
		return ErrLost`),
		Tests: "^TestRenewFindsTheLoss$", Packages: inLease,
	},
	{
		Name: "the end is told to nobody who doesn't ask", Rule: 0,
		Why:  "a kept context ends at the next renewal instead of with the lease",
		File: "internal/lease/handle.go",
		Edits: swap(`l.watch.Reset(l.nextLook())`,
			`_ = l.nextLook()`),
		Tests: "^TestDoneIsClosedAtTheEnd$", Packages: inLease,
	},
	{
		Name: "a kept context ends a TTL after the lease", Rule: 13,
		Why:  "the work goes on without the lock until the next look",
		File: "internal/lease/keepalive.go",
		Edits: []Edit{
			{"\t\"slices\"\n", "\t\"slices\"\n\t\"time\"\n"},
			{`f.ended(context.Cause(l.over))`, `time.AfterFunc(l.valid.ttl, func() { f.ended(context.Cause(l.over)) })`},
		},
		Tests: "^TestRule13BeliefEndsAtTheSend$", Packages: inLease,
	},
	{
		Name: "belief ends at the release's reply", Rule: 13,
		Why:  "released, the reply lost, still believed",
		File: "internal/lease/release.go",
		Edits: swap(`l.finish(ErrReleased) // before anything is sent`,
			`defer l.finish(ErrReleased)`),
		Tests: "^TestRule13BeliefEndsAtTheSend$", Packages: inLease,
	},
	{
		Name: "a known loss is forgotten", Rule: 0,
		Why:  "a renewal has said lost, another holds the lock, and the release is told well: nothing is taken back",
		File: "internal/lease/handle.go",
		Edits: swap(`	l.lost = true
`, ``),
		Tests: "^TestAKnownLossIsRemembered$", Packages: inLease,
	},
	{
		Name: "a loss that a batch finds is forgotten", Rule: 0,
		Why:  "the same, of a lease that is kept alive with others",
		File: "internal/lease/batch.go",
		Edits: swap(`l.lose()`,
			`l.finish(ErrLost)`),
		Tests: "^TestAKnownLossIsRemembered$", Packages: inLease,
	},
	{
		Name: "a loss that a write finds is forgotten", Rule: 0,
		Why:  "the same, of a lease that was written under",
		File: "internal/lease/update.go",
		Edits: swap(`	case unsure == nil:
		l.lose()
		return ErrLost`,
			`	case unsure == nil:
		l.finish(ErrLost)
		return ErrLost`),
		Tests: "^TestAKnownLossIsRemembered$", Packages: inLease,
	},
	{
		Name: "a lease that is known to be lost is released by its answer", Rule: 0,
		Why:  "an entry that somebody brought back makes a lease kept that others were let in beside",
		File: "internal/lease/release.go",
		Edits: swap(`	case known:
		return ErrLost
`, `	case known && unsure != nil:
		return ErrLost
`),
		Tests: "^TestAKnownLossIsReleased$", Packages: inLease,
	},
	{
		Name: "another lease's end is told of a write", Rule: 0,
		Why:  "a write that was cut off is told to be unknown and not applied, and is repeated",
		File: "internal/lease/patience.go",
		Edits: swap(`		return ctx.Err()
`, `		return oneline.Join(ctx.Err(), ErrLost)
`),
		Tests: "^TestAWriteWhoseCallerLostAnotherLease$", Packages: inLease,
	},
	{
		Name: "a repeated release is reported lost", Rule: 0,
		Why:  "the reply was lost, and the caller compensates for a loss that wasn't",
		File: "internal/lease/release.go",
		Edits: swap(`	case l.left() > 0: // nobody but an earlier attempt can have removed it
		return nil`,
			`	case l.left() > 0: // nobody but an earlier attempt can have removed it
		return ErrLost`),
		Tests: "^TestReleaseWhoseReplyIsLost$", Packages: inLease,
	},
	{
		Name: "a release repeated after the end is reported as released", Rule: 0,
		Why:  "others may have been let in, and the caller isn't told",
		File: "internal/lease/release.go",
		Edits: swap(`case l.left() > 0: // nobody`,
			`case l.left() > -1<<60: // nobody`),
		Tests: "^TestReleaseWhoseReplyIsLostUntilTheEnd$", Packages: inLease,
	},
	{
		Name: "renewals end at the first error", Rule: 0,
		Why:  "a network that failed for a moment costs the lock",
		File: "internal/lease/renewals.go",
		Edits: swap(`k.alone, k.after = k.alone || alone, now.Mono+l.pause()`,
			`k.alone, k.after = k.alone || alone, now.Mono+time.Hour`),
		Tests: "^TestKeepAliveSurvivesWhatPasses$", Packages: inLease,
	},
	{
		Name: "a second keeper renews beside the first", Rule: 0,
		Why:  "commands are sent twice",
		File: "internal/lease/renewals.go",
		Edits: swap(`		r.running = true
`, ``),
		Tests: "^TestOneLoopForAllThatAreKept$", Packages: inLease,
	},
	{
		Name: "the first keeper's end ends the renewals", Rule: 0,
		Why:  "the lease ends under the second keeper",
		File: "internal/lease/renewals.go",
		Edits: swap(`	if k.keepers > 0 {
`, `	if k.keepers > 1 {
`),
		Tests: "^TestKeepAlivesShareOneLoop$", Packages: inLease,
	},
}
