package storm

import "github.com/doclock/doclock/proptest/tally"

// Floors are what a storm of some seeds must have seen, so that none passes empty.
func Floors(seeds int) (floors []tally.Floor) {
	for _, kind := range kinds {
		floors = append(floors, tally.Floor{Kind: "outcome", Name: seen(kind), Least: max(1, seeds/4)})
	}
	for _, property := range []string{EventsBelong, AcquiresEnd, AcquiresWait, LeasesEnd, OutcomesKnown, RenewalsTold, CommandsRight, DurationsRight} {
		floors = append(floors, tally.Floor{Kind: "check", Name: property, Least: 50 * seeds})
	}
	floors = append(floors, tally.Floor{Kind: "check", Name: LossesInTime, Least: 10 * seeds})
	for _, fault := range []string{FaultRefused, FaultRequestLost, FaultReplyLost, FaultDelayed, FaultDown, FaultClock, FaultBroken, FaultLose} {
		floors = append(floors, tally.Floor{Kind: "fault", Name: fault, Least: max(1, seeds/6)})
	}
	return floors
}
