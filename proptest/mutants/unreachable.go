package mutants

// unreachable take a command that can't be sent for one that may have been, or
// wait for a server for ever; and acquires tell their callers too little.
var unreachable = []Mutant{
	{
		Name: "what can't be sent is tried for ever", Rule: 0,
		Why:  "while the server is down nothing returns whose context has no end",
		File: "internal/attempt/settle.go",
		Edits: swap(`time.Since(begun) < failure.Patience`,
			`time.Since(begun) < 1<<62`),
		Tests: "^TestNoServerWithoutADeadline$", Packages: inLocker,
	},
	{
		Name: "what can't be sent is not tried again", Rule: 0,
		Why:  "a primary that is being elected ends every command at once",
		File: "internal/attempt/settle.go",
		Edits: swap(`time.Since(begun) < failure.Patience`,
			`time.Since(begun) < 0`),
		Tests: "^TestTheCleanUpAfterALostAttemptEnds$", Packages: inLocker,
	},
	{
		Name: "each who waits for a server waits for itself", Rule: 0,
		Why:  "of a hundred waiters on one document the last is told after an hour",
		File: "multilock/inflight.go",
		Edits: swap(`		t.err = err
		close(t.come)
`, `		_, _ = t, err
`),
		Tests: "^TestNoServerWithoutADeadline$", Packages: inLocker,
	},
	{
		Name: "a server that can't be selected may have executed the command", Rule: 0,
		Why:  "a wrong host is told as an unknown outcome",
		File: "internal/engine/reach.go",
		Edits: swap(`	if !left {
		return e.unsent(err)
	}
`, ``),
		Tests: "^TestWithoutAServerNothingIsSent$", Packages: inEngine,
	},
	{
		Name: "a write that can't be sent is of unknown outcome", Rule: 0,
		Why:  "callers take back what was never written",
		File: "internal/lease/patience.go",
		Edits: swap(`	case sending.Revoke():
`, `	case sending.Revoke() && false:
`),
		Tests: "^TestWriteThatCantBeSent$", Packages: inLease,
	},
	{
		Name: "a revoked write is sent", Rule: 0,
		Why:  "a write that was told not to be sent is applied later",
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
		Name: "a wait that ran out is told by the clock alone", Rule: 0,
		Why:  "a held document can't be told from a dead server",
		File: "multilock/acquisition.go",
		Edits: swap(`			last = a.known()
`,
			``),
		Tests: "^TestAWaitThatRanOutNamesTheHolder$", Packages: inLocker,
	},
}
