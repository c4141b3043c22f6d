package mutants

// servers are wrong verdicts on the server that is asked whether it will do.
var servers = []Mutant{
	{
		Name: "a server without hello is refused", Rule: 0,
		Why:  "MongoDB 4.4.0 is said not to answer",
		File: "server.go",
		Edits: swap(`	if errors.As(err, &refused) && refused.HasErrorCode(commandNotFound) {
		err =`,
			`	if errors.As(err, &refused) && refused.HasErrorCode(commandNotFound) && false {
		err =`),
		Tests: "^TestCheckServerWithoutHello$", Packages: []string{leasePkg},
	},
	{
		Name: "majority reads are not asked for", Rule: 20,
		Why:  "a batch of renewals can't be believed where majority reads are off, and each lease is renewed alone for ever",
		File: "server.go",
		Edits: swap(`	if _, err = e.Standing(ctx, []engine.Grant{{DocID: nowhere.Pin.ID(), Tag: tag, ID: id}}); err != nil {`,
			`	if false {`),
		Tests: "^TestCheckServerFindsTheUnsupported$", Packages: []string{leasePkg},
	},
	{
		Name: "a router that wants the shard key is unsupported", Rule: 0,
		Why:  "every sharded collection is said not to do",
		File: "server.go",
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
		Name: "documents of one _id in two shards have one line", Rule: 15,
		Why:  "a lock that is given back at one is handed over to a waiter for the other",
		File: "internal/waitqueue/key.go",
		Edits: swap(`	for _, field := range pin {`,
			`	for _, field := range pin[:1] {`),
		Tests: "^TestTheQueueOfAShardedDocument$", Packages: inQueue,
	},
	{
		Name: "an update may change the shard key", Rule: 0,
		Why:  "the update is applied, and the lease finds its document no more",
		File: "internal/engine/check.go",
		Edits: swap(`		if within(path, key) || within(key, path) {`,
			`		if path == key {`),
		Tests: "^TestUpdatesOfTheShardKeyAreRefused$", Packages: inEngine,
	},
	{
		Name: "the clocks of all routers are taken for one", Rule: 0,
		Why:  "a router's clock that differs by more than the tolerance is not told",
		File: "clockskew.go",
		Edits: swap(`	if before, known := (*c)[server]; !known`,
			`	server = ""
	if before, known := (*c)[server]; !known`),
		Tests: "^(TestClockOffsets|TestCheckServerComparesTheClocks)$", Packages: []string{leasePkg},
	},
	{
		Name: "the slowest answer tells a server's clock", Rule: 0,
		Why:  "the difference that is reported is that of the network",
		File: "clockskew.go",
		Edits: swap(`seen.width() < before.width()`,
			`seen.width() > before.width()`),
		Tests: "^TestClockOffsets$", Packages: []string{leasePkg},
	},
}
