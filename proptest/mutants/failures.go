package mutants

// failures take the driver's errors for what they are not, try for ever or not at all
// to reach a server, or leave entries of acquires without a lease.
var failures = []Mutant{{
	Name: "a command that can't be sent is tried for ever",
	Why:  "while the server is down, a call whose context has no end never returns",
	File: "internal/attempt/settle.go", Tests: "^TestHowLongAServerIsAwaited$", Packages: inLocker,
	Old: `time.Since(begun) >= bounds.RetryLimit, time.Since(passed) >= bounds.RetryLimit/3,`,
	New: `!failure.Passes && time.Since(begun) >= bounds.RetryLimit, passed.IsZero(),`,
}, {
	Name: "a command that can't be sent is not tried again",
	Why:  "a primary that is being elected ends every command at once",
	File: "internal/attempt/settle.go", Tests: "^TestSettleRepeatsWhatPasses$", Packages: inAttempt,
	Old: `case failure.Refused(),`,
	New: `case failure.Nothing,`,
}, {
	Name: "a revoked write is sent",
	Why:  "a write that was reported as not sent is applied later",
	File: "internal/engine/reach.go", Tests: "^TestWriteThatCantBeSent$", Packages: inLease,
	Old: `return s.state.CompareAndSwap(waiting, sent) || s.state.Load() == sent`,
	New: `s.state.CompareAndSwap(waiting, sent); return true`,
}, {
	Name: "MaxWait bounds the work too",
	Why:  "a deadline that was meant for the wait ends fn",
	File: "multilock/locker.go", Tests: "^TestDoRenews$", Packages: inLocker,
	Old: `return fn(held.KeepAlive(ctx), held)`,
	New: `if cfg, _ := acquireConfig(opts); cfg.MaxWait != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *cfg.MaxWait)
		defer cancel()
	}
	return fn(held.KeepAlive(ctx), held)`,
}, {
	Name: "the error of a wait that ran out has the time alone",
	Why:  "a held document can't be distinguished from a dead server",
	File: "multilock/asked.go", Tests: "^TestAWaitThatRanOutNamesTheHolder$", Packages: inLocker,
	Old: `last = a.known()`,
}, {
	Name: "the error that ends a context counts as the call's own",
	Why:  "an acquire whose errgroup has ended with another call's conflict spins for ever",
	File: "internal/attempt/ended.go", Tests: "^TestTheContextEndsWithTheErrorOfAnotherCall$", Packages: inLocker,
	Old: `if isOurs(cause) {`,
	New: `if false {`,
}, {
	Name: "a lost connection counts as a refusal",
	Why:  "the command was executed, and the caller is told that it failed",
	File: "internal/engine/failure.go", Tests: "^TestClassify$", Packages: inEngine,
	Old: `lost := slices.Contains(codes, 0) || mongo.IsNetworkError(err) || mongo.IsTimeout(err)`,
	New: `lost := mongo.IsTimeout(err)`,
}, {
	Name: "one label of an overloaded server counts for both",
	Why:  "the command may have been executed, and the caller is told that it was not",
	File: "internal/engine/failure.go", Tests: "^TestClassify$", Packages: inEngine,
	Old: `!slices.ContainsFunc(overload, func(label string) bool { return !server.HasErrorLabel(label) })`,
	New: `slices.ContainsFunc(overload, server.HasErrorLabel)`,
}, {
	Name: "a write is sent again if its connection is lost",
	Why:  "the second message is refused, and the caller is told that nothing happened; the first one is executed",
	File: "internal/engine/send.go", Tests: "^TestOneAttemptIsOneMessage$", Packages: inEngine,
	Old: `reply, err = e.coll.Database().RunCommand(ctx, command).Raw()
`,
	New: `reply, err = e.coll.Database().RunCommand(ctx, command).Raw()
	if mongo.IsNetworkError(err) {
		reply, err = e.coll.Database().RunCommand(ctx, command).Raw()
	}
`,
}, {
	Name: "a later attempt's refusal counts for the earlier one",
	Why:  "the first attempt was executed, and the caller is told that it was not",
	File: "internal/attempt/settle.go", Tests: "^TestSettle", Packages: inAttempt,
	Old: `if maybe != nil {
			unsure = maybe
		}`,
	New: `unsure = maybe`,
}, {
	Name: "a late entry is removed only once", Rule: 22,
	Why:  "the entry comes after that, and nobody holds the lock until it expires",
	File: "multilock/cleanup.go", Tests: "^TestALateAttempt", Packages: inLocker,
	Old: `if over || l.entries <= 0 {`,
	New: `if over || l.entries <= 0 || s.err == nil {`,
}, {
	Name: "acquires of a document are not bounded",
	Why:  "callers that give up pile up commands, and the holder's renewal comes too late",
	File: "multilock/inflight.go", Tests: "^TestAcquiresBehindTheBound", Packages: inLocker,
	Old: `slots{free: mostPerDocument}`,
	New: `slots{free: 1 << 20}`,
}}
