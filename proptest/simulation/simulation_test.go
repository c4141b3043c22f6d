package simulation_test

import (
	"flag"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/simulation"
	"github.com/doclock/doclock/proptest/tally"
)

var (
	first = flag.Uint64("first", 1, "the first seed")
	seeds = flag.Int("seeds", 1, "how many seeds")
	long  = flag.Duration("for", 40*time.Second, "how long each run is, in virtual time")
)

// The full proof makes longer runs. With -args -first 7 -seeds 1 these are of seed 7.
func short() simulation.Config {
	return simulation.Config{First: *first, Seeds: *seeds, Long: *long}
}

func TestInMemory(t *testing.T) {
	t.Parallel()
	var counts tally.Tally
	simulation.Run(t, short(), &counts)
	counts.Report(t, tally.Floors("check", 100, simulation.LeasesEnd)...)
}

// After an outage, at whatever step it begins, no entry stays that nobody holds, and
// nobody is told a wrong verdict on the lock.
func TestOutages(t *testing.T) {
	t.Parallel()
	var counts tally.Tally
	simulation.Outages(t, *first, 35, &counts)
	counts.Report(t, tally.Floors("check", 7, simulation.EntriesGone)...)
}

// The same callers on a replica set, whose primaries are deposed.
func TestOnAReplicaSet(t *testing.T) {
	t.Parallel()
	var counts tally.Tally
	simulation.Cluster(t, short(), &counts)
	counts.Report(t, tally.Floors("check", 20, history.PropertyGone)...)
}

// An application of transactions under a lock, on a replica set and on a sharded cluster.
func TestTransactions(t *testing.T) {
	t.Parallel()
	var counts tally.Tally
	simulation.Transactions(t, short(), &counts)
	counts.Report(t, simulation.TransactionFloors(*seeds)...)
}

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
	uri, restart := mongotest.Private(t)
	onServer(t, simulation.ServerConfig{URI: uri, Operations: 100, Restart: restart},
		tally.Floors("fault", 1, simulation.FaultRestarted)...)
}

func onServer(t *testing.T, cfg simulation.ServerConfig, floors ...tally.Floor) {
	cfg.Processes, cfg.CallersPerProcess, cfg.Documents, cfg.Seed, cfg.Faults = 2, 8, 6, uint64(time.Now().UnixNano()), true
	h, counts, err := simulation.RunServer(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Check(counts)
	counts.Report(t, append(floors, tally.Floors("check", 10, simulation.LeasesEnd)...)...)
}
