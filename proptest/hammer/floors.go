package hammer

import (
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
)

// PropertyGranted is counted by Granted.
const PropertyGranted = "at least 30% of the attempts are granted"

// Floors are the least counts that a checked run of this many operations must
// reach. A run with less proves little.
func Floors(operations int) []tally.Floor {
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
		"downgrade: granted", "downgrade: conflict",
	} {
		floors = append(floors, tally.Floor{Kind: "outcome", Name: seen, Least: 1})
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
