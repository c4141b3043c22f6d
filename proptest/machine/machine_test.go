package machine_test

import (
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/machine"
	"github.com/doclock/doclock/proptest/tally"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// A short run of the machines; the full proof makes thousands.

func TestEngine(t *testing.T) {
	var count tally.Tally
	machine.Engine(t, mongotest.Database(t), 250, 30, &count)
	floors := []tally.Floor{
		{Kind: "check", Name: machine.EngineOutcomes, Least: 500},
		{Kind: "check", Name: machine.EngineStored, Least: 400},
	}
	for _, outcome := range machine.Outcomes() {
		floors = append(floors, tally.Floor{Kind: "outcome", Name: outcome, Least: 1})
	}
	for _, failure := range count.Failures(floors...) {
		t.Error(failure)
	}
	if err := count.Table(t.Output()); err != nil {
		t.Error(err)
	}
}

func TestAPI(t *testing.T) {
	var count tally.Tally
	machine.API(t, mongotest.Database(t), 80, 30, &count)
	for _, failure := range count.Failures(
		tally.Floor{Kind: "check", Name: machine.APIOutcomes, Least: 500},
		tally.Floor{Kind: "check", Name: machine.APIStored, Least: 400},
		tally.Floor{Kind: "check", Name: machine.APIValidity, Least: 500},
		tally.Floor{Kind: "check", Name: machine.APIEvents, Least: 100},
		tally.Floor{Kind: "outcome", Name: machine.SeenHandedOver, Least: 2},
	) {
		t.Error(failure)
	}
	if err := count.Table(t.Output()); err != nil {
		t.Error(err)
	}
}
