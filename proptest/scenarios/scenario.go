package scenarios

import (
	"testing"
	"time"

	"github.com/doclock/doclock/proptest/tally"
)

// Scenario is one page.
type Scenario struct {
	Name string
	// Run causes each of its faults n times, or a few times more, and counts.
	Run func(t testing.TB, n int, counts *tally.Tally)
	// Virtual scenarios need no further process, and so run in virtual time, too.
	Virtual bool
	faults  []string // that must fire
	checks  []string // that must be made
}

// All are the scenarios, in the order of the proof.
var All = []Scenario{
	{Name: "callers that give up", Run: giveUps, Virtual: true, faults: []string{cancelled, executed}, checks: []string{leavesNone, onlyGiven}},
	{Name: "verdicts", Run: verdicts, Virtual: true, faults: []string{knownLoss, manyWrites}},
	{Name: "outside writers", Run: outsideWriters, Virtual: true,
		faults: []string{"document replaced", "document deleted", "document deleted and inserted again", "lock field erased", "garbage in the lock field"}},
	{Name: "blocked documents", Run: blockedDocuments, Virtual: true, faults: []string{blocked}, checks: []string{othersGo}},
	{Name: "a killed server", Run: killedServer, faults: []string{restarted}},
	{Name: "transfers", Run: moveMoney, faults: []string{moverKilled, moverStopped}, checks: []string{conserved}},
	{Name: "claims", Run: claimJobs, faults: []string{workerKilled}, checks: []string{once, notIdle}},
	{Name: "leaders", Run: campaign, faults: []string{leaderKilled, leaderStopped}, checks: []string{onlyOne}},
}

// Floors are what n times of a scenario must have done, so that none passes empty.
func (s Scenario) Floors(n int) (floors []tally.Floor) {
	for _, name := range s.faults {
		floors = append(floors, tally.Floor{Kind: "fault", Name: name, Least: n})
	}
	for _, name := range s.checks {
		floors = append(floors, tally.Floor{Kind: "check", Name: name, Least: n})
	}
	return floors
}

// patience is the time for which a scenario waits for something to happen, on a
// machine of any speed.
const patience = 2 * time.Minute

// counting is a scenario that runs.
type counting struct {
	testing.TB
	*tally.Tally
}

// check counts a check of a property. What is said describes a violation.
func (c counting) check(property string, holds bool, format string, args ...any) {
	c.Checked(property, 1)
	if !holds {
		c.Violated(property, format, args...)
	}
}

func (c counting) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// until waits for something.
func (c counting) until(what string, happened func() bool) {
	c.Helper()
	for begun := time.Now(); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > patience {
			c.Fatalf("%s: not in %v", what, patience)
		}
	}
}
