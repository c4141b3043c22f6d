package mutants

// failures classify the driver's errors wrongly.
var failures = []Mutant{
	{
		Name: "a write-concern error counts as a refusal", Rule: 0,
		Why:  "the write is done on the primary, and the caller is told that it failed",
		File: "internal/engine/failure.go",
		Edits: swap(`		f.Answered = !lost && !passes(concern)`,
			`		f.Certain = !lost || passes(concern)`),
		Tests: "^(TestWriteConcernErrorIsUnknown|TestClassify)$", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "a deadline inside the server counts as a refusal", Rule: 0,
		Why:  "the command was executed, and the caller is told that it failed",
		File: "internal/engine/failure.go",
		Edits: swap(`server.HasErrorLabel("RetryableWriteError"), slices.ContainsFunc(codes, passes):`,
			`server.HasErrorLabel("RetryableWriteError"):`),
		Tests: "^(TestClassify|TestAnswersThatProveNothing)$", Packages: inEngine,
	},
	{
		Name: "an error that is not listed counts as a refusal", Rule: 0,
		Why:  "the reply was too large, or had no image; the command was executed, and the caller is told that it failed",
		File: "internal/engine/failure.go",
		Edits: swap(`return refused(code) == nil }):
		f.Answered = true`,
			`return refused(code) == nil }):
		f.Certain = true`),
		Tests: "^TestAnswersThatProveNothing$", Packages: inEngine,
	},
	{
		Name: "one refusal among several errors counts for all", Rule: 0,
		Why:  "the command was executed, and the caller is told that it failed",
		File: "internal/engine/failure.go",
		Edits: swap(`	case len(codes) == 0, slices.ContainsFunc(codes, func(code int) bool { return refused(code) == nil }):`,
			`	case !slices.ContainsFunc(codes, func(code int) bool { return refused(code) != nil }):`),
		Tests: "^TestClassify$", Packages: inEngine,
	},
	{
		Name: "a server that answers is asked for ever", Rule: 0,
		Why:  "a caller without a deadline never returns, and the server gets commands without end",
		File: "internal/attempt/settle.go",
		Edits: swap(`		case time.Since(answered) > longestAnswered:
			return unsure, err
`,
			``),
		Tests: "^TestSettleBoundsAnswersThatProveNothing$", Packages: inAttempt,
	},
	{
		Name: "answers are counted over a lost connection", Rule: 0,
		Why:  "commands to a server that is being restarted are given up",
		File: "internal/attempt/settle.go",
		Edits: swap(`		case !failure.Answered:
			answered = time.Time{}
`,
			`		case !failure.Answered:
`),
		Tests: "^TestSettleGoesOnWhereAnswersAreLostBetween$", Packages: inAttempt,
	},
	{
		Name: "an answer hides an attempt that was lost before it", Rule: 0,
		Why:  "the lost attempt may still be on its way, and counts as ended",
		File: "internal/attempt/settle.go",
		Edits: swap(`maybe != nil && (unsure == nil || !engine.AsFailure(maybe).Answered)`,
			`maybe != nil`),
		Tests: "^TestSettleRemembersTheLostAttempt$", Packages: inAttempt,
	},
	{
		Name: "a lost connection counts as a refusal", Rule: 0,
		Why:  "the command was executed, and the caller is told that it failed",
		File: "internal/engine/failure.go",
		Edits: swap(`lost := slices.Contains(codes, 0) || mongo.IsNetworkError(err) || mongo.IsTimeout(err)`,
			`lost := mongo.IsTimeout(err)`),
		Tests: "^TestClassify$", Packages: inEngine,
	},
	{
		Name: "a later attempt's refusal counts for the earlier one", Rule: 0,
		Why:  "the first attempt was executed, and the caller is told that it was not",
		File: "internal/attempt/settle.go",
		Edits: swap(`		if maybe != nil && (unsure == nil || !engine.AsFailure(maybe).Answered) {
			unsure = maybe
		}`,
			`		unsure = maybe`),
		Tests: "^TestSettle", Packages: inAttempt,
	},
	{
		Name: "a command is cut off with its caller", Rule: 22,
		Why:  "an acquire executes after its clean-up, and nobody holds the entry",
		File: "internal/attempt/settle.go",
		Edits: swap(`context.WithTimeout(Detached(ctx), timeout)`,
			`context.WithTimeout(ctx, timeout)`),
		Tests: "^TestSettle", Packages: inAttempt,
	},
	{
		Name: "a detached command keeps the caller's session", Rule: 0,
		Why:  "two goroutines use one session",
		File: "internal/attempt/settle.go",
		Edits: swap(`return mongo.NewSessionContext(ctx, nil)`,
			`return ctx`),
		Tests: "^TestDetached", Packages: inAttempt,
	},
}
