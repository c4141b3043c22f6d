package simulation

import (
	"slices"

	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
)

// Outcomes that are counted for the floors.
const (
	SeenLimited = "leases with HoldAtMost"
	SeenLed     = "terms of leaders"
)

// Floors are what a run in memory of some seeds must have seen, so that none passes empty.
func Floors(seeds int) []tally.Floor {
	var events, rare, refusals []string
	for _, kind := range kinds {
		events = append(events, seen(kind))
	}
	for _, length := range lengths {
		for _, what := range []string{"server down", "program cut off", faultTrouble} {
			rare = append(rare, inMemory+outage(what, length.name))
		}
	}
	for _, of := range labels {
		refusals = append(refusals, inMemory+labelled(of))
	}
	return slices.Concat(
		tally.Floors("outcome", max(1, seeds/4), events...),
		tally.Floors("check", 50*seeds, EventsBelong, AcquiresEnd, LeasesEnd, RenewalsTold, DurationsRight, CallsRest),
		tally.Floors("check", 10*seeds, OutcomesKnown),
		tally.Floors("check", 5*seeds, ForeignSkipped),
		tally.Floors("outcome", 5*seeds, SeenLimited),
		tally.Floors("outcome", seeds, SeenLed),
		tally.Floors("fault", max(1, seeds/6), prefixed(inMemory, FaultRefused, FaultRequestLost, FaultReplyLost, FaultDelayed, FaultFailOver, FaultClock,
			FaultBroken, FaultTakenOver, FaultLose, FaultHurried, FaultPanic, FaultValidator)...),
		tally.Floors("fault", seeds/30, rare...),
		tally.Floors("fault", seeds/10, refusals...),
	)
}

// ClusterFloors are what a run on a replica set of some seeds must have seen.
func ClusterFloors(seeds int) []tally.Floor {
	return append(
		tally.Floors("fault", max(1, seeds/4), prefixed(ofCluster, FaultElection, FaultAgain, FaultDeposed, FaultAlone, FaultNewcomer, FaultIsolated,
			FaultNoMajority, FaultTurned, FaultLocked, FaultRequestLost, FaultReplyLost, FaultDelayed, FaultBroken)...),
		tally.Floors("outcome", seeds, prefixed(ofCluster, SeenRolledBack, SeenUnknown, SeenLost)...)...)
}

// TransactionFloors are what a run of the application of transactions of some seeds must have seen.
func TransactionFloors(seeds int) []tally.Floor {
	return slices.Concat(
		tally.Floors("check", 20*seeds, ToldIsTrue),
		tally.Floors("check", seeds, BooksAreRight),
		tally.Floors("outcome", 5*seeds, SeenCommitted), // else unknown outcomes alone would pass
		tally.Floors("outcome", seeds/4, SeenNone, SeenConverted, SeenResumed, SeenTakenOver, SeenBroken),
	)
}

// prefixed are names that begin with the world's.
func prefixed(world string, names ...string) []string {
	for i := range names {
		names[i] = world + names[i]
	}
	return names
}

// ServerFloors are the least counts that the checked histories of this many operations
// must reach, and those of each fault.
func ServerFloors(operations, eachFault int) []tally.Floor {
	return slices.Concat(
		tally.Floors("outcome", operations/5, history.SeenGranted, history.SeenContended),
		tally.Floors("outcome", operations/50, history.SeenExpired, history.SeenBehind),
		tally.Floors("outcome", operations/250, history.SeenHanded),
		tally.Floors("outcome", 1,
			"acquire: granted", "acquire: waiting", "acquire: conflict", "acquire: not found",
			"confirm: granted", "confirm: waiting", "confirm: lost",
			"renew: renewed", history.SeenRenewLost,
			"release: released", "release: removed while waiting", "release: lost",
			"write: applied", "write: not applied",
			"write-and-release: applied", "write-and-release: not applied",
			"detach: detached", "resume: granted", "resume: lost", "touch: touched", "touch: lost",
			"convert: granted", "convert: conflict", "take-over: granted", "take-over: conflict"),
		tally.Floors("fault", eachFault, FaultRestarted),
		tally.Floors("fault", eachFault, ServerFaults...),
	)
}
