package mutants

// failures are the driver's errors, taken for something else.
var failures = []Mutant{
	{
		Name: "a write-concern error is taken for a refusal", Rule: 0,
		Why:  "the write stands on the primary, and the caller is told that it failed",
		File: "internal/engine/failure.go",
		Edits: swap(`	if withWriteConcernError(err) {
		return f`,
			`	if withWriteConcernError(err) {
		f.Certain = true
		return f`),
		Tests: "^(TestWriteConcernErrorIsUnknown|TestClassify)$", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "a deadline inside the server is taken for a refusal", Rule: 0,
		Why:  "the command was executed, and the caller is told that it failed",
		File: "internal/engine/failure.go",
		Edits: swap(`has(codesMaybeExecuted...) || `,
			``),
		Tests: "^TestClassify$", Packages: inEngine,
	},
	{
		Name: "a lost connection is taken for a refusal", Rule: 0,
		Why:  "the command was executed, and the caller is told that it failed",
		File: "internal/engine/failure.go",
		Edits: swap(`if has(0) || mongo.IsNetworkError(err) || mongo.IsTimeout(err) ||`,
			`if mongo.IsTimeout(err) ||`),
		Tests: "^TestClassify$", Packages: inEngine,
	},
	{
		Name: "a later attempt's refusal is believed of the earlier one", Rule: 0,
		Why:  "the first attempt was executed, and the caller is told that nothing was",
		File: "internal/attempt/settle.go",
		Edits: swap(`		if maybe != nil {
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
