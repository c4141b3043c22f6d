package machine_test

import (
	"flag"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/proptest/machine"
	"github.com/doclock/doclock/proptest/tally"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// A short run in memory, the same each time. The proof makes thousands on a server, with seeds of their own.
func TestEngine(t *testing.T) {
	for name, value := range map[string]string{"rapid.seed": "5", "rapid.shrinktime": "3s"} {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	var count tally.Tally
	machine.Engine(t, locktest.New(t).Client().Database("machine"), 400, 30, &count)
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
