package leaders_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/leaders"
	"github.com/doclock/doclock/proptest/tally"
)

var faults = flag.Int("faults", 6, "how often the leader is killed or stopped")

func TestMain(m *testing.M) {
	leaders.Main()
	mongotest.Main(m)
}

func TestLeaders(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes for about ten seconds")
	}
	var counts tally.Tally
	gaps, err := leaders.Run(t.Context(), mongotest.URI(t), mongotest.Database(t).Name(), *faults, &counts)
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range counts.Failures(tally.Floor{Kind: "check", Name: leaders.OnlyOne, Least: *faults}) {
		t.Error(failure)
	}
	if err := counts.Table(t.Output()); err != nil {
		t.Error(err)
	}
	slices.Sort(gaps)
	t.Logf("time to the next leader: median %v, longest %v", gaps[len(gaps)/2], gaps[len(gaps)-1])
}
