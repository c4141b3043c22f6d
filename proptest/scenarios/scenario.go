package scenarios

import (
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/tally"
)

// Scenario is one page.
type Scenario struct {
	Name   string
	run    func(t testing.TB, n int, counts *tally.Tally) // it causes each of its faults n times, or a few times more
	where  where
	faults []string // that must fire
	checks []string // that must be made
}

// where a scenario runs.
type where int

const (
	anywhere where = iota
	inMemory       // in virtual time
	onServer       // in real time
)

// All are the scenarios, in the order of the proof.
var All = []Scenario{
	{Name: "callers that give up", run: giveUps, faults: []string{cancelled, executed}, checks: []string{leavesNone, appliedOnce}},
	{Name: "a killed server", run: killedServer, where: onServer, faults: []string{restarted}},
	{Name: "claims", run: claimJobs, where: inMemory, faults: []string{workersGone}, checks: []string{once, notIdle}},
}

// Run runs the scenario on a server, or in virtual time in memory, if it can.
func (s Scenario) Run(t *testing.T, server bool, n int, counts *tally.Tally) {
	t.Helper()
	run := func(t *testing.T) { s.run(t, n, counts) }
	switch {
	case s.where == inMemory:
		for range n { // with new programs each time
			mongotest.RunVirtual(t, s.Name, func(t *testing.T) { s.run(t, 1, counts) })
		}
	case s.where == anywhere && !server:
		mongotest.RunVirtual(t, s.Name, run)
	default:
		t.Run(s.Name, run)
	}
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
