package transfers_test

import (
	"flag"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/proptest/transfers"
)

var length = flag.Duration("for", 15*time.Second, "how long the clients move money")

func TestMain(m *testing.M) {
	transfers.Main()
	mongotest.Main(m)
}

// Sixteen clients in four processes, which are killed and stopped.
func TestTransfers(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes for a quarter of a minute")
	}
	var counts tally.Tally
	cost, err := transfers.Run(t.Context(), transfers.Config{
		URI: mongotest.URI(t), DB: mongotest.Database(t), For: *length, Processes: 4, Faults: true,
	}, &counts)
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range counts.Failures(
		tally.Floor{Kind: "fault", Name: transfers.Killed, Least: 2},
		tally.Floor{Kind: "fault", Name: transfers.Stopped, Least: 2},
		tally.Floor{Kind: "check", Name: transfers.Conserved, Least: 2},
		tally.Floor{Kind: "outcome", Name: transfers.Done, Least: 32},
	) {
		t.Error(failure)
	}
	if err := counts.Table(t.Output()); err != nil {
		t.Error(err)
	}
	n := float64(max(cost.Transfers, 1))
	t.Logf("%d sets of %.2f accounts; %.2f commands a set (%.2f an account)",
		cost.Transfers, float64(cost.Accounts)/n, float64(cost.Commands)/n, float64(cost.Commands)/float64(max(cost.Accounts, 1)))
}

// The check can fail: without locks the sum changes.
func TestWithoutLocksTheSumChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes")
	}
	var counts tally.Tally
	if _, err := transfers.Run(t.Context(), transfers.Config{
		URI: mongotest.URI(t), DB: mongotest.Database(t), For: 3 * time.Second, Processes: 2, Careless: true,
	}, &counts); err != nil {
		t.Fatal(err)
	}
	if counts.Violations[transfers.Conserved] == 0 {
		t.Errorf("the sum has not changed in %d transfers", counts.Outcomes[transfers.Done])
	}
}
