package machine_test

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/machine"
	"github.com/doclock/doclock/proptest/tally"
)

// rate runs a machine, and returns its steps per second.
func rate(t *testing.T, steps string, run func(*tally.Tally)) float64 {
	t.Helper()
	var count tally.Tally
	began := time.Now()
	run(&count)
	took := time.Since(began)
	for _, failure := range count.Failures() {
		t.Error(failure)
	}
	t.Logf("%d %s in %v", count.Checks[steps], steps, took.Round(time.Millisecond))
	return float64(count.Checks[steps]) / took.Seconds()
}

// The machines find locktest's server to be as the model says, many times as fast.
func TestInMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // the heap is small, and would be collected all the time
	db := mongotest.Database(t)
	onServer := rate(t, machine.EngineSteps, func(c *tally.Tally) { machine.Engine(t, db, 10, 100, c) })
	inMemory := rate(t, machine.EngineSteps, func(c *tally.Tally) { machine.EngineInMemory(t, 150, 100, c) })
	t.Logf("engine: %.0f steps per second in memory, %.0f on the server: %.0f times as many", inMemory, onServer, inMemory/onServer)
	onServer = rate(t, machine.APISteps, func(c *tally.Tally) { machine.API(t, db, 10, 30, c) })
	inMemory = rate(t, machine.APISteps, func(c *tally.Tally) { machine.APIInMemory(t, 100, 30, c) })
	t.Logf("API: %.0f steps per second in memory, %.0f on the server: %.0f times as many", inMemory, onServer, inMemory/onServer)
}
