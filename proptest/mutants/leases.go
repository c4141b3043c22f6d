package mutants

// leases believe too long, or say what isn't so.
var leases = []Mutant{
	{
		Name: "validity counts from the renewal's reply", Rule: 4,
		Why:  "a contender enters while the holder still believes",
		File: "internal/lease/renew.go",
		Edits: swap(`got, err = send(ctx)`,
			`got, err = send(ctx)
		got.Sent = s.engine.Clocks()`),
		Tests: "^TestRule04AnchoredAtTheSend$", Packages: inLease,
	},
	{
		Name: "the holder believes for the tolerance too", Rule: 0,
		Why:  "the tolerance covers nothing: clocks that differ let others in beside the holder",
		File: "internal/lease/hold.go",
		Edits: swap(`ttl: l.engine.Lease(g.Tag)}}`,
			`ttl: l.engine.Lease(g.Tag) + l.engine.Tolerance}}`),
		Tests: "^TestValidityEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "the wall clock is not looked at", Rule: 0,
		Why:  "a machine that was suspended believes in a lease of yesterday",
		File: "internal/lease/validity.go",
		Edits: swap(`max(now.Mono-v.from.Mono, now.Wall.Sub(v.from.Wall))`,
			`now.Mono - v.from.Mono`),
		Tests: "^TestValidityEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "the monotonic clock is not looked at", Rule: 0,
		Why:  "a wall clock that was set back makes a lease longer",
		File: "internal/lease/validity.go",
		Edits: swap(`max(now.Mono-v.from.Mono, now.Wall.Sub(v.from.Wall))`,
			`now.Wall.Sub(v.from.Wall)`),
		Tests: "^TestValidityEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "the server's resolution is not taken off", Rule: 0,
		Why:  "the belief ends up to a millisecond after the entry",
		File: "internal/lease/validity.go",
		Edits: swap(`return v.ttl - resolution - passed`,
			`return v.ttl - passed`),
		Tests: "^TestValidityEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "a renewal is sent after the local end", Rule: 0,
		Why:  "a lease that was over is revived at the server",
		File: "internal/lease/renew.go",
		Edits: swap(`	if err := s.err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.remaining())
	defer cancel()
	var got engine.Answer
	_, err := attempt.Settle(ctx, s.engine.Attempt(s.grant.Tag), func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, s.remaining())`,
			`	ctx, cancel := context.WithTimeout(ctx, s.kept())
	defer cancel()
	var got engine.Answer
	_, err := attempt.Settle(ctx, s.engine.Attempt(s.grant.Tag), func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, s.kept())`),
		Tests: "^TestRenewNeverRevives$", Packages: inLease,
	},
	{
		Name: "a renewal that was answered after the end is reported as renewed", Rule: 4,
		Why:  "the caller goes on with a lease that is over",
		File: "internal/lease/renew.go",
		Edits: swap(`	s.extend(validity{from: got.Sent, ttl: s.engine.Lease(s.grant.Tag)})
	return s.err()`,
			`	s.extend(validity{from: got.Sent, ttl: s.engine.Lease(s.grant.Tag)})
	return nil`),
		Tests: "^TestRenewAnsweredAfterTheEnd$", Packages: inLease,
	},
	{
		Name: "a loss that a renewal finds is not told", Rule: 0,
		Why:  "the holder works on until its time is up",
		File: "internal/lease/renew.go",
		Edits: swap(`	if got.Outcome == engine.Lost {
		s.lose()
		return ErrLost`,
			`	if got.Outcome == engine.Lost {
		return ErrLost`),
		Tests: "^TestRenewFindsTheLoss$", Packages: inLease,
	},
	{
		Name: "the end is told to nobody who doesn't ask", Rule: 0,
		Why:  "a kept context ends at the next renewal instead of with the lease",
		File: "internal/lease/hold.go",
		Edits: swap(`s.watch.Reset(s.nextCheck())`,
			`_ = s.nextCheck()`),
		Tests: "^TestDoneIsClosedAtTheEnd$", Packages: inLease,
	},
	{
		Name: "a kept context ends a TTL after the lease", Rule: 13,
		Why:  "the work goes on without the lock until the next look",
		File: "internal/lease/hold.go",
		Edits: swap(`f.ended(cause)`,
			`time.AfterFunc(h.hold.valid.ttl, func() { f.ended(cause) })`),
		Tests: "^TestRule13ValidityEndsAtTheSend$", Packages: inLease,
	},
	{
		Name: "belief ends at the release's reply", Rule: 13,
		Why:  "released, the reply lost, still believed",
		File: "internal/lease/release.go",
		Edits: swap(`s.finish(ErrReleased) // before anything is sent`,
			`defer s.finish(ErrReleased)`),
		Tests: "^TestRule13ValidityEndsAtTheSend$", Packages: inLease,
	},
	{
		Name: "a known loss is forgotten", Rule: 0,
		Why:  "a renewal has said lost, another holds the lock, and the release is told well: nothing is taken back",
		File: "internal/lease/hold.go",
		Edits: swap(`	s.lost = true
`,
			``),
		Tests: "^TestAKnownLossIsRemembered$", Packages: inLease,
	},
	{
		Name: "a loss that a batch finds is forgotten", Rule: 0,
		Why:  "the same, of a lease that is kept alive with others",
		File: "internal/lease/batch.go",
		Edits: swap(`s.lose()`,
			`s.finish(ErrLost)`),
		Tests: "^TestAKnownLossIsRemembered$", Packages: inLease,
	},
	{
		Name: "a loss that a write finds is forgotten", Rule: 0,
		Why:  "the same, of a lease that was written under",
		File: "internal/lease/write.go",
		Edits: swap(`	case unsure == nil:
		s.lose()
		return ErrLost`,
			`	case unsure == nil:
		s.finish(ErrLost)
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
		File: "internal/lease/errors.go",
		Edits: swap(`		return ctx.Err()
`,
			`		return oneline.Join(ctx.Err(), ErrLost)
`),
		Tests: "^TestAWriteWhoseCallerLostAnotherLease$", Packages: inLease,
	},
	{
		Name: "a repeated release is reported lost", Rule: 0,
		Why:  "the reply was lost, and the caller compensates for a loss that wasn't",
		File: "internal/lease/release.go",
		Edits: swap(`	case s.left() > 0: // nobody but an earlier attempt can have removed it
		return nil`,
			`	case s.left() > 0: // nobody but an earlier attempt can have removed it
		return ErrLost`),
		Tests: "^TestReleaseWhoseReplyIsLost$", Packages: inLease,
	},
	{
		Name: "a release repeated after the end is reported as released", Rule: 0,
		Why:  "others may have been let in, and the caller isn't told",
		File: "internal/lease/release.go",
		Edits: swap(`case s.left() > 0: // nobody`,
			`case s.left() > -1<<60: // nobody`),
		Tests: "^TestReleaseWhoseReplyIsLostUntilTheEnd$", Packages: inLease,
	},
	{
		Name: "renewals end at the first error", Rule: 0,
		Why:  "a network that failed for a moment costs the lock",
		File: "internal/lease/keeper.go",
		Edits: swap(`of.alone, of.after = of.alone || alone, now.Mono+s.pause()`,
			`of.alone, of.after = of.alone || alone, now.Mono+time.Hour`),
		Tests: "^TestKeepAliveSurvivesWhatPasses$", Packages: inHold,
	},
	{
		Name: "a second keeper renews beside the first", Rule: 0,
		Why:  "commands are sent twice",
		File: "internal/lease/keeper.go",
		Edits: swap(`		k.running = true
`,
			``),
		Tests: "^TestOneLoopForAllThatAreKept$", Packages: inHold,
	},
	{
		Name: "the first keeper's end ends the renewals", Rule: 0,
		Why:  "the lease ends under the second keeper",
		File: "internal/lease/keeper.go",
		Edits: swap(`	if of.wanted > 0 {
`,
			`	if of.wanted > 1 {
`),
		Tests: "^TestKeepAlivesShareOneLoop$", Packages: inHold,
	},
}
