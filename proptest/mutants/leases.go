package mutants

// leases believe too long, or say what isn't so.
var leases = []Mutant{
	{
		Name: "validity counts from the renewal's reply", Rule: 4,
		Why:  "another holder enters while the lease is still valid",
		File: "internal/lease/renew.go",
		Edits: swap(`got, err = send(ctx)`,
			`got, err = send(ctx)
		got.Sent = s.engine.Clocks()`),
		Tests: "^TestRule04AnchoredAtTheSend$", Packages: inLease,
	},
	{
		Name: "the lease is valid for the tolerance too", Rule: 0,
		Why:  "the tolerance has no effect: clocks that differ let another holder in",
		File: "internal/lease/hold.go",
		Edits: swap(`ttl: g.TTL}}`,
			`ttl: g.TTL + l.engine.Tolerance}}`),
		Tests: "^TestValidityEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "the wall clock is not checked", Rule: 0,
		Why:  "a lease is still valid after its machine was suspended",
		File: "internal/lease/validity.go",
		Edits: swap(`max(now.Mono-v.from.Mono, now.Wall.Sub(v.from.Wall))`,
			`now.Mono - v.from.Mono`),
		Tests: "^TestValidityEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "the monotonic clock is not checked", Rule: 0,
		Why:  "a wall clock that was set back makes a lease longer",
		File: "internal/lease/validity.go",
		Edits: swap(`max(now.Mono-v.from.Mono, now.Wall.Sub(v.from.Wall))`,
			`now.Wall.Sub(v.from.Wall)`),
		Tests: "^TestValidityEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "the server's resolution is not subtracted", Rule: 0,
		Why:  "the validity ends up to a millisecond after the entry",
		File: "internal/lease/validity.go",
		Edits: swap(`return v.ttl - resolution - passed`,
			`return v.ttl - passed`),
		Tests: "^TestValidityEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "a renewal is sent after the local end", Rule: 0,
		Why:  "a lease that has ended is revived at the server",
		File: "internal/lease/renew.go",
		Edits: swap(`	if err := s.err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.remaining())
	defer cancel()
	var got engine.Answer
	_, err := attempt.Settle(ctx, s.engine.Attempt(s.grant.TTL), func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, s.remaining())`,
			`	ctx, cancel := context.WithTimeout(ctx, s.kept())
	defer cancel()
	var got engine.Answer
	_, err := attempt.Settle(ctx, s.engine.Attempt(s.grant.TTL), func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, s.kept())`),
		Tests: "^TestRenewNeverRevives$", Packages: inLease,
	},
	{
		Name: "a renewal that was answered after the end is reported as renewed", Rule: 4,
		Why:  "the caller goes on with a lease that has ended",
		File: "internal/lease/renew.go",
		Edits: swap(`	s.extend(validity{from: got.Sent, ttl: s.grant.TTL})
	return s.err()`,
			`	s.extend(validity{from: got.Sent, ttl: s.grant.TTL})
	return nil`),
		Tests: "^TestRenewAnsweredAfterTheEnd$", Packages: inLease,
	},
	{
		Name: "a loss that a renewal finds is not reported", Rule: 0,
		Why:  "the holder works on until the local end of its lease",
		File: "internal/lease/renew.go",
		Edits: swap(`	if got.Outcome == engine.Lost {
		s.lose()
		return ErrLost`,
			`	if got.Outcome == engine.Lost {
		return ErrLost`),
		Tests: "^TestRenewFindsTheLoss$", Packages: inLease,
	},
	{
		Name: "the end is reported only to callers that ask", Rule: 0,
		Why:  "a kept context ends at the next renewal instead of with the lease",
		File: "internal/lease/hold.go",
		Edits: swap(`s.watch.Reset(s.nextCheck())`,
			`_ = s.nextCheck()`),
		Tests: "^TestDoneIsClosedAtTheEnd$", Packages: inLease,
	},
	{
		Name: "a kept context ends a TTL after the lease", Rule: 13,
		Why:  "the work goes on without the lock until the next check",
		File: "internal/lease/hold.go",
		Edits: swap(`f.ended(cause)`,
			`time.AfterFunc(h.hold.valid.ttl, func() { f.ended(cause) })`),
		Tests: "^TestRule13ValidityEndsAtTheSend$", Packages: inLease,
	},
	{
		Name: "validity ends at the release's reply", Rule: 13,
		Why:  "the lock is released, the reply is lost, and the lease still counts as valid",
		File: "internal/lease/release.go",
		Edits: swap(`s.finish(ErrReleased) // before anything is sent`,
			`defer s.finish(ErrReleased)`),
		Tests: "^TestRule13ValidityEndsAtTheSend$", Packages: inLease,
	},
	{
		Name: "a known loss is forgotten", Rule: 0,
		Why:  "a renewal has reported the loss, another holds the lock, and the release reports success: the caller does not compensate",
		File: "internal/lease/hold.go",
		Edits: swap(`	s.lost = true
`,
			``),
		Tests: "^TestAKnownLossIsRemembered$", Packages: inLease,
	},
	{
		Name: "a loss that a batch finds is forgotten", Rule: 0,
		Why:  "the same, for a lease that is kept alive with others",
		File: "internal/lease/batch.go",
		Edits: swap(`s.lose()`,
			`s.finish(ErrLost)`),
		Tests: "^TestAKnownLossIsRemembered$", Packages: inLease,
	},
	{
		Name: "a loss that a write finds is forgotten", Rule: 0,
		Why:  "the same, for a lease with a guarded write",
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
		Name: "the release of a lost lease has its answer as verdict", Rule: 0,
		Why:  "an entry that an outside writer brought back makes the lease count as kept, although other holders were let in",
		File: "internal/lease/release.go",
		Edits: swap(`	case known:
		return ErrLost
`, `	case known && unsure != nil:
		return ErrLost
`),
		Tests: "^TestAKnownLossIsReleased$", Packages: inLease,
	},
	{
		Name: "another lease's end decides the verdict of a write", Rule: 0,
		Why:  "a write that was cut off is reported as unknown and as not applied, and is repeated",
		File: "internal/lease/errors.go",
		Edits: swap(`		return ctx.Err()
`,
			`		return oneline.Join(ctx.Err(), ErrLost)
`),
		Tests: "^TestAWriteWhoseCallerLostAnotherLease$", Packages: inLease,
	},
	{
		Name: "a repeated release is reported lost", Rule: 0,
		Why:  "the reply was lost, and the caller compensates for a loss that did not happen",
		File: "internal/lease/release.go",
		Edits: swap(`	case s.left() > 0: // nobody but an earlier attempt can have removed it
		return nil`,
			`	case s.left() > 0: // nobody but an earlier attempt can have removed it
		return ErrLost`),
		Tests: "^TestReleaseWhoseReplyIsLost$", Packages: inLease,
	},
	{
		Name: "a release repeated after the end is reported as released", Rule: 0,
		Why:  "other holders may have been let in, and the caller isn't told",
		File: "internal/lease/release.go",
		Edits: swap(`case s.left() > 0: // nobody`,
			`case s.left() > -1<<60: // nobody`),
		Tests: "^TestReleaseWhoseReplyIsLostUntilTheEnd$", Packages: inLease,
	},
	{
		Name: "renewals end at the first error", Rule: 0,
		Why:  "a short network failure costs the lock",
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
	{
		Name: "a detached context ends with the one that KeepAlive was given", Rule: 0,
		Why:  "a release that the caller waits for is of unknown outcome at once",
		File: "internal/lease/patience.go",
		Edits: swap(`			cancel(cause)
			return
		}
		outer := h.outer(ctx)
		unfollowOuter := context.AfterFunc(outer, func() { cancel(context.Cause(outer)) })
		context.AfterFunc(patient, func() { unfollowOuter() })
	})
`,
			`			cancel(cause)
		}
	})
	outer := h.outer(ctx)
	context.AfterFunc(outer, func() { cancel(context.Cause(outer)) })
`),
		Tests: "^TestACallerDetachesTheContextOfKeepAlive$", Packages: inHold,
	},
	{
		Name: "the context that KeepAlive was given means nothing after the lease's end", Rule: 0,
		Why:  "a caller whose deadline is over still waits for a release",
		File: "internal/lease/patience.go",
		Edits: swap(`		unfollowOuter := context.AfterFunc(outer, func() { cancel(context.Cause(outer)) })
`,
			`		unfollowOuter := context.AfterFunc(outer, func() {})
`),
		Tests: "^TestACallerGivesUpWithTheOuterContext$", Packages: inHold,
	},
}
