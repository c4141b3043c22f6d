package mutants

// servers are wrong verdicts on the server that is asked whether it will do.
var servers = []Mutant{
	{
		Name: "a server without hello is refused", Rule: 0,
		Why:  "MongoDB 4.4.0 is reported as not answering",
		File: "check.go",
		Edits: swap(`	if errors.As(err, &refused) && refused.HasErrorCode(commandNotFound) {
		err =`,
			`	if errors.As(err, &refused) && refused.HasErrorCode(commandNotFound) && false {
		err =`),
		Tests: "^TestCheckServerWithoutHello$", Packages: []string{leasePkg},
	},
	{
		Name: "majority reads are not checked", Rule: 20,
		Why:  "without majority reads no batch of renewals can be confirmed, and each lease is renewed alone for ever",
		File: "check.go",
		Edits: swap(`	if _, _, err = e.Standing(ctx, []engine.Grant{{DocID: nowhere.Pin.ID(), Tag: tag, ID: id}}); err != nil {`,
			`	if false {`),
		Tests: "^TestCheckServerFindsTheUnsupported$", Packages: []string{leasePkg},
	},
	{
		Name: "a router that wants the shard key is unsupported", Rule: 0,
		Why:  "every sharded collection is reported as unsupported",
		File: "check.go",
		Edits: swap(`		needsShardKey, err = true, nil // and so it is a router that knows the command`,
			`		needsShardKey = true`),
		Tests: "^TestCheckServerOfAShardedCollection$", Packages: []string{leasePkg},
	},
	{
		Name: "a holder's commands lack the shard key", Rule: 0,
		Why:  "a router refuses every renewal and every release",
		File: "internal/engine/guard.go",
		Edits: swap(`		pin = append(pin, bson.E{Key: key, Value: v})`,
			`		_ = v`),
		Tests: "^(TestShardKeyPinsTheDocument|TestThroughRouters)$", Packages: inEngine,
	},
	{
		Name: "a filter's pin is its _id alone", Rule: 22,
		Why:  "a router refuses the clean-up behind an acquire of unknown outcome",
		File: "internal/engine/filter.go",
		Edits: swap(`append([]string{"_id"}, e.ShardKey...)`,
			`[]string{"_id"}`),
		Tests: "^(TestThePinHasTheShardKey|TestAnUnknownAcquireIsCleanedUpThroughARouter)$", Packages: inEngine,
	},
	{
		Name: "documents of one _id in two shards have one wait queue", Rule: 15,
		Why:  "a lock that is released at one is handed over to a waiter for the other",
		File: "internal/waitqueue/key.go",
		Edits: swap(`	for _, field := range pin {`,
			`	for _, field := range pin[:1] {`),
		Tests: "^TestTheQueueOfAShardedDocument$", Packages: inQueue,
	},
	{
		Name: "an update may change the shard key", Rule: 0,
		Why:  "the update is applied, and the lease does not find its document any more",
		File: "internal/engine/check.go",
		Edits: swap(`		if within(path, key) || within(key, path) {`,
			`		if path == key {`),
		Tests: "^TestUpdatesOfTheShardKeyAreRefused$", Packages: inEngine,
	},
	{
		Name: "the clocks of all routers count as one", Rule: 0,
		Why:  "a router's clock that differs by more than the tolerance is not reported",
		File: "check.go",
		Edits: swap(`	if before, known := (*c)[server]; !known`,
			`	server = ""
	if before, known := (*c)[server]; !known`),
		Tests: "^(TestClockOffsets|TestCheckServerComparesTheClocks)$", Packages: []string{leasePkg},
	},
	{
		Name: "the slowest answer measures a server's clock", Rule: 0,
		Why:  "the reported difference is that of the network",
		File: "check.go",
		Edits: swap(`seen.width() < before.width()`,
			`seen.width() > before.width()`),
		Tests: "^TestClockOffsets$", Packages: []string{leasePkg},
	},
}
