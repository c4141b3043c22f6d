package machine_test

import (
	"flag"
	"slices"
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
	count.Report(t, slices.Concat(
		tally.Floors("check", 500, machine.EngineOutcomes),
		tally.Floors("check", 400, machine.EngineStored),
		tally.Floors("outcome", 1, machine.Outcomes()...),
	)...)
}
