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
	h, counts, err := simulation.RunServer(t.Context(), simulation.ServerConfig{
		URI:       mongotest.URI(t),
		Processes: 2, CallersPerProcess: 8,
		Operations: 200,
		Documents:  6,
		Seed:       uint64(time.Now().UnixNano()),
		Faults:     true,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Check(counts)
	for _, failure := range counts.Failures(tally.Floor{Kind: "check", Name: simulation.LeasesEnd, Least: 10}) {
		t.Error(failure)
	}
	if err := counts.Table(t.Output()); err != nil {
		t.Error(err)
	}
}
