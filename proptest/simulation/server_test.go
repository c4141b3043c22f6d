package simulation_test

import (
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/simulation"
	"github.com/doclock/doclock/proptest/tally"
)

func TestMain(m *testing.M) {
	simulation.Main()
	mongotest.Main(m)
}

// A short run of several processes in real time; the full proof makes more.
func TestOnAServer(t *testing.T) {
	t.Parallel()
	onServer(t, simulation.ServerConfig{URI: mongotest.URI(t), Operations: 200})
}

// The same, while the server is killed.
func TestOnAKilledServer(t *testing.T) {
	t.Parallel()
	server := mongotest.Private(t)
	onServer(t, simulation.ServerConfig{URI: server.URI(), Operations: 100, Restart: server.Restart},
		tally.Floor{Kind: "fault", Name: simulation.FaultRestarted, Least: 1})
}

func onServer(t *testing.T, cfg simulation.ServerConfig, floors ...tally.Floor) {
	cfg.Processes, cfg.CallersPerProcess, cfg.Documents, cfg.Seed, cfg.Faults = 2, 8, 6, uint64(time.Now().UnixNano()), true
	h, counts, err := simulation.RunServer(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Check(counts)
	for _, failure := range counts.Failures(append(floors, tally.Floor{Kind: "check", Name: simulation.LeasesEnd, Least: 10})...) {
		t.Error(failure)
	}
	if err := counts.Table(t.Output()); err != nil {
		t.Error(err)
	}
}
