package mutants

// observers are told less than what happens, or too much, or at the cost of others.
var observers = []Mutant{
	{
		Name: "a loss by time is not told", Rule: 0,
		Why:  "nobody is alerted when two clients may work at the same time",
		File: "internal/lease/hold.go",
		Edits: swap(`		h.tellLost()
`, ``),
		Tests: "^TestEventsOfALeaseThatIsLeftAlone$", Packages: inHold,
	},
	{
		Name: "a release after the end is another end", Rule: 0,
		Why:  "one lease counts as two",
		File: "internal/lease/observed.go",
		Edits: swap(`	of.over, of.ctx = true, nil`,
			`	of.ctx = nil`),
		Tests: "^TestEventsOfCommands$", Packages: inHold,
	},
	{
		Name: "an ended lease keeps its acquire's context", Rule: 0,
		Why:  "what a request holds in memory stays as long as its caller has the lease",
		File: "internal/lease/observed.go",
		Edits: swap(`	of.over, of.ctx = true, nil`,
			`	of.over = true`),
		Tests: "^TestContextsOfEvents$", Packages: inHold,
	},
	{
		Name: "a loss before the caller has the lease is not told", Rule: 0,
		Why:  "a lease that was granted has no end",
		File: "internal/lease/observed.go",
		Edits: swap(`errors.Is(h.over, ErrLost)`,
			`errors.Is(h.over, ErrReleased)`),
		Tests: "^TestEventsOfALeaseWithoutACaller$", Packages: inHold,
	},
	{
		Name: "a write of unknown outcome is not told", Rule: 0,
		Why:  "the caller learns what the operator does not",
		File: "internal/lease/write.go",
		Edits: swap(`	h.tellUnknown(ctx, err)
`, ``),
		Tests: "^TestEventsOfCommands$", Packages: inHold,
	},
	{
		Name: "a release that is given up is not told", Rule: 0,
		Why:  "the caller learns what the operator does not",
		File: "internal/lease/release.go",
		Edits: swap(`		h.tellDoubt(ctx, v, err)
`, ``),
		Tests: "^TestEventsOfCommands$", Packages: inHold,
	},
	{
		Name: "one command of unknown outcome is told twice", Rule: 0,
		Why:  "an operator counts two for one",
		File: "internal/lease/observed.go",
		Edits: swap(`		v.doubted = true
`, ``),
		Tests: "^TestEventsOfCommands$", Packages: inHold,
	},
	{
		Name: "a handoff is told as a release", Rule: 0,
		Why:  "nobody sees which locks never become free",
		File: "internal/lease/handoff.go",
		Edits: swap(`o.hold.tellAll(ctx, observe.HandedOver, nil)`,
			`o.hold.tellAll(ctx, observe.Released, nil)`),
		Tests: "^TestEventsOfAHandoff$", Packages: inHold,
	},
	{
		Name: "the renewals of a batch are not told", Rule: 0,
		Why:  "with many leases, none seems to be renewed",
		File: "internal/lease/batch.go",
		Edits: swap(`			s.extend(validity{from: got.Sent, ttl: s.grant.TTL})
			s.tellRenewal(engine.Renewed, nil)
`,
			`			s.extend(validity{from: got.Sent, ttl: s.grant.TTL})
`),
		Tests: "^TestEventsOfABatch$", Packages: inHold,
	},
	{
		Name: "a lease's commands are not counted", Rule: 0,
		Why:  "the cost of a lock is not seen",
		File: "internal/lease/observed.go",
		Edits: swap(`		sending.Each = s.count
`,
			`		sending.Each = nil
`),
		Tests: "^TestEventsCountCommands$", Packages: []string{lockerPkg, holdPkg},
	},
	{
		Name: "the commands that make a document are not counted", Rule: 0,
		Why:  "the cost of an upsert is not seen",
		File: "internal/engine/engine.go",
		Edits: swap(`	if sent, err := e.begin(ctx); err != nil {
		return nil, sent, err
	}
	_, refused`,
			`	if sent, err := e.begin(WithSending(ctx, nil)); err != nil {
		return nil, sent, err
	}
	_, refused`),
		Tests: "^TestEventsCountCommands$", Packages: inLocker,
	},
	{
		Name: "a waiter behind another is not told", Rule: 0,
		Why:  "only the first waiter of a long queue is seen",
		File: "multilock/acquire.go",
		Edits: swap(`	a.queued(w, last)
`, ``),
		Tests: "^TestEventsOfAWaiterThatDoesNotAsk$", Packages: inLocker,
	},
	{
		Name: "an acquire tells each refusal that it meets", Rule: 0,
		Why:  "one wait counts as many",
		File: "multilock/observed.go",
		Edits: swap(`!of.waited.Swap(true)`,
			`!of.waited.Load()`),
		Tests: "^TestEventsOfAcquiresThatGiveUp$", Packages: inLocker,
	},
	{
		Name: "a wait that is over is told as a refusal", Rule: 0,
		Why:  "a deadline and a lock that is held look alike",
		File: "multilock/observed.go",
		Edits: swap(`	return !endedBy(ctx, err) && (`,
			`	return (`),
		Tests: "^TestEventsOfAcquiresThatGiveUp$", Packages: inLocker,
	},
	{
		Name: "a ticket that is cancelled has no end", Rule: 0,
		Why:  "its acquire seems to wait for ever",
		File: "multilock/cancel.go",
		Edits: swap(`		t.tell(nil, t.over)
`, ``),
		Tests: "^TestEventsOfTickets$", Packages: inLocker,
	},
	{
		Name: "a loss makes room for an event", Rule: 0,
		Why:  "a slow observer misses what it is there for",
		File: "internal/observe/event.go",
		Edits: swap(`	case Lost, OutcomeUnknown:
		return 3
`, ``),
		Tests: "^TestEventsOfASlowObserver$", Packages: inObserver,
	},
	{
		Name: "dropped events are not counted", Rule: 0,
		Why:  "an observer doesn't know that its counts are wrong",
		File: "internal/observe/observer.go",
		Edits: swap(`	o.dropped++
`, ``),
		Tests: "^TestEventsOfASlowObserver$", Packages: inObserver,
	},
	{
		Name: "an observer runs in the caller's goroutine", Rule: 0,
		Why:  "a slow observer delays a renewal",
		File: "internal/observe/observer.go",
		Edits: swap(`		o.running = true
		go o.run()
`,
			`		o.running = true
		o.mu.Unlock()
		o.run()
		o.mu.Lock()
`),
		Tests: "^TestEventsOfASlowObserver$", Packages: inObserver,
	},
	{
		Name: "a panic of an observer goes on", Rule: 0,
		Why:  "an observer's fault ends the program",
		File: "internal/observe/observer.go",
		Edits: swap(`if reason := recover(); reason != nil {`,
			`if reason := any(nil); reason != nil {`),
		Tests: "^TestAPanickingObserver$", Packages: inObserver,
	},
	{
		Name: "an observer's context ends with its caller's", Rule: 0,
		Why:  "an observer that exports by it fails whenever an acquire has given up",
		File: "internal/observe/observer.go",
		Edits: swap(`queued{context.WithoutCancel(ctx), e}`,
			`queued{ctx, e}`),
		Tests: "^TestTheObserversContext$", Packages: inObserver,
	},
	{
		Name: "the last OnEvent counts", Rule: 0,
		Why:  "who adds a log loses the metrics",
		File: "observer.go",
		Edits: swap(`append(slices.Clone(c.Observers), `,
			`append(slices.Clone(c.Observers[:0]), `),
		Tests: "^TestOnEvent$", Packages: []string{leasePkg},
	},
	{
		Name: "a loss is logged for debugging only", Rule: 0,
		Why:  "no log of a running program shows it",
		File: "observer.go",
		Edits: swap(`	case e.Kind == EventLost, e.Kind`,
			`	case e.Kind`),
		Tests: "^TestLevelsOfLogTo$", Packages: []string{leasePkg},
	},
	{
		Name: "an acquire that ends by a panic is not told", Rule: 0,
		Why:  "the operator sees it wait for ever",
		File: "multilock/observed.go",
		Edits: swap(`		err = errPanicked
`,
			`		_ = errPanicked
		return
`),
		Tests: "^TestEventsOfADecodingThatPanics$", Packages: inLocker,
	},
	{
		Name: "a grant does not name what it waited for", Rule: 0,
		Why:  "the operator sees a long wait, and not the holder that caused it",
		File: "multilock/observed.go",
		Edits: swap(`		e.Conflict = of.behind
`,
			``),
		Tests: "^TestEventsOfAWait$", Packages: inLocker,
	},
	{
		Name: "leases that AcquireAll gives back are told as unknown", Rule: 0,
		Why:  "an operator is warned of what no caller was told",
		File: "internal/lease/observed.go",
		Edits: swap(` && !h.unused && !v.doubted`,
			` && !v.doubted`),
		Tests: "^TestEventsOfLeasesThatAreGivenBack$", Packages: inLocker,
	},
	{
		Name: "a cancel of unknown outcome is not told", Rule: 0,
		Why:  "the caller learns what the operator does not",
		File: "multilock/cancel.go",
		Edits: swap(`		err := oneline.Join(attempt.Ended(ctx), doclock.ErrOutcomeUnknown)
		t.place.a.tellUnknown(err)
`,
			`		err := oneline.Join(attempt.Ended(ctx), doclock.ErrOutcomeUnknown)
`),
		Tests: "^TestEventsOfACancelOfUnknownOutcome$", Packages: inLocker,
	},
	{
		Name: "each cancel of a ticket is told as unknown", Rule: 0,
		Why:  "an operator counts two for one",
		File: "multilock/observed.go",
		Edits: swap(`!of.doubt.Swap(true)`,
			`!of.doubt.Load()`),
		Tests: "^TestEventsOfACancelOfUnknownOutcome$", Packages: inLocker,
	},
	{
		Name: "a joiner that has left hides the others' unknown outcome", Rule: 0,
		Why:  "the caller learns what the operator does not",
		File: "internal/lease/observed.go",
		Edits: swap(` && !h.unused && !v.doubted`,
			` && !h.hold.unused && !v.doubted`),
		Tests: "^TestEventsBesideAnUnusedPart$", Packages: inHold,
	},
	{
		Name: "a renewal that was not sent is told as failed", Rule: 0,
		Why:  "an operator looks for a fault of the server that there is not",
		File: "internal/lease/observed.go",
		Edits: swap(` || errors.Is(err, engine.ErrRevoked) {`,
			` {`),
		Tests: "^TestEventsOfARenewalThatIsNotSent$", Packages: inHold,
	},
	{
		Name: "a release after a downgrade is told as unknown again", Rule: 0,
		Why:  "an operator counts two for one",
		File: "internal/lease/release.go",
		Edits: swap(`		v.doubted = true // the downgrade's caller was told
`, ``),
		Tests: "^TestEventsOfCallersWhoGiveUp$", Packages: inHold,
	},
	{
		Name: "a renewal that is given up is not told", Rule: 0,
		Why:  "the caller learns what the operator does not",
		File: "internal/lease/renew.go",
		Edits: swap(`	h.tellUnknown(ctx, err)
`, ``),
		Tests: "^TestEventsOfCallersWhoGiveUp$", Packages: inHold,
	},
	{
		Name: "a detach that is given up is not told", Rule: 0,
		Why:  "the caller learns what the operator does not",
		File: "internal/lease/detach.go",
		Edits: swap(`	h.tellDoubt(ctx, v, err)
`, ``),
		Tests: "^TestEventsOfCallersWhoGiveUp$", Packages: inHold,
	},
	{
		Name: "a downgrade of unknown outcome is told as a release", Rule: 0,
		Why:  "a lock that may be held still counts as free",
		File: "internal/lease/downgrade.go",
		Edits: swap(`s.tellAll(ctx, observe.Released, err)`,
			`s.tellAll(ctx, observe.Released, nil)`),
		Tests: "^TestEventsOfCallersWhoGiveUp$", Packages: inHold,
	},
}
