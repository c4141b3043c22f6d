package mutants

// renewals of many leases by one command.
var renewals = []Mutant{{
	Name: "a batch that matched some counts for all", Rule: 20,
	File: "internal/engine/batch.go", Tests: "^TestRenewAllButOne$", Packages: inEngine,
	Old: `counted(reply, "n") == int64(len(grants))`,
	New: `counted(reply, "n") > 0`,
}, {
	Name: "leases of a batch are valid from its answer on", Rule: 20,
	Why:  "another holder enters while the leases are still valid",
	File: "internal/lease/batch.go", Tests: "^TestRule20AnchoredAtTheSend$", Packages: inHold,
	Old: `got, failed := with.commands.RenewAll(ctx, grants)`,
	New: `got, failed := with.commands.RenewAll(ctx, grants)
	got.Sent = with.engine.Clocks()`,
}, {
	Name: "leases of a read are valid from its answer on", Rule: 20,
	Why:  "another holder enters while the leases are still valid",
	File: "internal/lease/batch.go", Tests: "^TestRule20AnchoredAtTheSend$", Packages: inHold,
	Old: `standing, sent, err := with.commands.Standing(ctx, grants)`,
	New: `standing, sent, err := with.commands.Standing(ctx, grants)
	sent = with.engine.Clocks()`,
}, {
	Name: "an entry that is present counts as valid for a TTL", Rule: 20,
	Why:  "it was not extended, and expires before its lease ends",
	File: "internal/lease/batch.go", Tests: "^TestRule20(UnknownOutcomes|WhatStandsIsNotExtended)$", Packages: inHold,
	Old: `lasting(span, sent, s.grant.TTL)`,
	New: `lasting(max(span, s.grant.TTL), sent, s.grant.TTL)`,
}, {
	Name: "an entry that is present is matched by its id alone", Rule: 20,
	Why:  "a late duplicate of the acquire counts as the lease that was lost",
	File: "internal/engine/batch.go", Tests: "^TestRenewAllButOne$", Packages: inEngine,
	Old: `entry.Tag == g.Tag && entry.Fence == g.Fence`,
	New: `entry.Tag == g.Tag && g.Fence != 0`,
}, {
	Name: "every lease is renewed alone",
	Why:  "ten thousand leases cost ten thousand commands",
	File: "internal/lease/batch.go", Tests: "^TestManyLeasesAreRenewedByFewCommands$", Packages: inHold,
	Old: `batchSize = 100`,
	New: `batchSize = 1`,
}, {
	Name: "the loop goes on without leases",
	Why:  "a goroutine outlives its owner",
	File: "internal/lease/keeper.go", Tests: "^TestOneLoopForAllThatAreKept$", Packages: inHold,
	Old: `if len(k.kept) == 0 {
		k.running = false`,
	New: `if k.kept == nil && !k.running {
		k.running = false`,
}}
