package simulation

import (
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
)

// Outcomes that are counted for the floors.
const (
	SeenLimited = "leases with HoldAtMost"
	SeenLed     = "terms of leaders"
	SeenNested  = "nested acquires that were refused behind a waiter"
)

// Floors are what a run in memory of some seeds must have seen, so that none passes empty.
func Floors(seeds int) (floors []tally.Floor) {
	for _, kind := range kinds {
		floors = append(floors, tally.Floor{Kind: "outcome", Name: seen(kind), Least: max(1, seeds/4)})
	}
	for _, property := range []string{EventsBelong, AcquiresEnd, LeasesEnd, RenewalsTold, DurationsRight, CallsRest} {
		floors = append(floors, tally.Floor{Kind: "check", Name: property, Least: 50 * seeds})
	}
	floors = append(floors, tally.Floor{Kind: "check", Name: OutcomesKnown, Least: 10 * seeds}, tally.Floor{Kind: "check", Name: ForeignSkipped, Least: 5 * seeds},
		tally.Floor{Kind: "outcome", Name: SeenLimited, Least: 5 * seeds}, tally.Floor{Kind: "outcome", Name: SeenLed, Least: seeds},
		tally.Floor{Kind: "outcome", Name: SeenNested, Least: seeds / 30})
	for _, fault := range []string{FaultRefused, FaultRequestLost, FaultReplyLost, FaultDelayed, FaultFailOver, FaultClock, FaultBroken, FaultTakenOver,
		FaultLose, FaultHurried, FaultPanic, FaultValidator} {
		floors = append(floors, tally.Floor{Kind: "fault", Name: inMemory + fault, Least: max(1, seeds/6)})
	}
	for _, length := range lengths {
		for _, what := range []string{"server down", "program cut off", faultTrouble} {
			floors = append(floors, tally.Floor{Kind: "fault", Name: inMemory + outage(what, length.name), Least: seeds / 30})
		}
	}
	for _, of := range labels {
		floors = append(floors, tally.Floor{Kind: "fault", Name: inMemory + labelled(of), Least: seeds / 10})
	}
	return floors
}

// PropertyGranted is counted by Granted.
const PropertyGranted = "at least 30% of the attempts are granted"

// ServerFloors are the least counts that the checked histories of this many operations
// must reach, and those of each fault.
func ServerFloors(operations, eachFault int) []tally.Floor {
	floors := []tally.Floor{
		{Kind: "outcome", Name: history.SeenContended, Least: operations / 5},
		{Kind: "outcome", Name: history.SeenExpired, Least: operations / 50},
		{Kind: "outcome", Name: history.SeenBehind, Least: operations / 50},
		{Kind: "outcome", Name: history.SeenHanded, Least: operations / 100},
	}
	for _, seen := range []string{
		"acquire: granted", "acquire: waiting", "acquire: conflict", "acquire: not found",
		"confirm: granted", "confirm: waiting", "confirm: lost",
		"renew: renewed", history.SeenRenewLost,
		"release: released", "release: removed while waiting", "release: lost",
		"write: applied", "write: not applied",
		"write-and-release: applied", "write-and-release: not applied",
		"detach: detached", "resume: granted", "resume: lost", "touch: touched", "touch: lost",
		"convert: granted", "convert: conflict", "take-over: granted", "take-over: conflict",
	} {
		floors = append(floors, tally.Floor{Kind: "outcome", Name: seen, Least: 1})
	}
	for _, fault := range append([]string{FaultRestarted}, ServerFaults...) {
		floors = append(floors, tally.Floor{Kind: "fault", Name: fault, Least: eachFault})
	}
	return floors
}

// Granted checks, in the tally of a checked history, that enough attempts were
// granted.
func Granted(t *tally.Tally) {
	t.Checked(PropertyGranted, 1)
	attempts, granted := t.Outcomes[history.SeenAttempts], t.Outcomes[history.SeenGranted]
	if granted*100 < attempts*30 {
		t.Violated(PropertyGranted, "%d of %d", granted, attempts)
	}
}
