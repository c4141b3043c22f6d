package mutants

// unreachable treat a command that can't be sent as one that may have been sent,
// wait for a server for ever, or tell the callers of acquires too little.
var unreachable = []Mutant{
	{
		Name: "a command that can't be sent is tried for ever", Rule: 0,
		Why:  "while the server is down, a call whose context has no end never returns",
		File: "internal/attempt/settle.go",
		Edits: swap(`time.Since(begun) < failure.Patience`,
			`time.Since(begun) < 1<<62`),
		Tests: "^TestNoServerWithoutADeadline$", Packages: inLocker,
	},
	{
		Name: "a command that can't be sent is not tried again", Rule: 0,
		Why:  "a primary that is being elected ends every command at once",
		File: "internal/attempt/settle.go",
		Edits: swap(`time.Since(begun) < failure.Patience`,
			`time.Since(begun) < 0`),
		Tests: "^TestTheCleanUpAfterALostAttemptEnds$", Packages: inLocker,
	},
	{
		Name: "each caller waits for a server by itself", Rule: 0,
		Why:  "of a hundred waiters for one document the last returns after an hour",
		File: "multilock/inflight.go",
		Edits: swap(`		t.err = err
		close(t.come)
`, `		_, _ = t, err
`),
		Tests: "^TestNoServerWithoutADeadline$", Packages: inLocker,
	},
	{
		Name: "a server that can't be selected may have executed the command", Rule: 0,
		Why:  "a wrong host is reported as an unknown outcome",
		File: "internal/engine/reach.go",
		Edits: swap(`	if !left {
		return e.unsent(err)
	}
`, ``),
		Tests: "^TestWithoutAServerNothingIsSent$", Packages: inEngine,
	},
	{
		Name: "a write that can't be sent is of unknown outcome", Rule: 0,
		Why:  "callers compensate for writes that were never sent",
		File: "internal/lease/patience.go",
		Edits: swap(`	case sending.Revoke():
`, `	case sending.Revoke() && false:
`),
		Tests: "^TestWriteThatCantBeSent$", Packages: inLease,
	},
	{
		Name: "a revoked write is sent", Rule: 0,
		Why:  "a write that was reported as not sent is applied later",
		File: "internal/engine/reach.go",
		Edits: swap(`return s.state.CompareAndSwap(waiting, sent) || s.state.Load() == sent`,
			`s.state.CompareAndSwap(waiting, sent); return true`),
		Tests: "^TestWriteThatCantBeSent$", Packages: inLease,
	},
	{
		Name: "MaxWait bounds the work too", Rule: 0,
		Why:  "a deadline that was meant for the wait ends fn",
		File: "multilock/locker.go",
		Edits: swap(`	return fn(held.KeepAlive(ctx), held)
`, `	for _, opt := range opts {
		var cfg engine.AcquireConfig
		if _ = opt(&cfg); cfg.MaxWait != nil {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, *cfg.MaxWait)
			defer cancel()
		}
	}
	return fn(held.KeepAlive(ctx), held)
`),
		Tests: "^TestMaxWaitBoundsNothingElse$", Packages: inLocker,
	},
	{
		Name: "the error of a wait that ran out has the time alone", Rule: 0,
		Why:  "a held document can't be distinguished from a dead server",
		File: "multilock/acquisition.go",
		Edits: swap(`			last = a.known()
`,
			``),
		Tests: "^TestAWaitThatRanOutNamesTheHolder$", Packages: inLocker,
	},
}
