package claims_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/claims"
	"github.com/doclock/doclock/proptest/tally"
)

var jobs = flag.Int("jobs", 400, "how many jobs are claimed")

func TestMain(m *testing.M) {
	claims.Main()
	mongotest.Main(m)
}

// Thirty-two workers in four processes, one of which is killed.
func TestClaims(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes for several seconds")
	}
	var counts tally.Tally
	result, err := claims.Run(t.Context(), claims.Config{URI: mongotest.URI(t), DB: mongotest.Database(t), Jobs: *jobs}, &counts)
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range counts.Failures(
		tally.Floor{Kind: "fault", Name: claims.Killed, Least: 1},
		tally.Floor{Kind: "check", Name: claims.Once, Least: *jobs},
		tally.Floor{Kind: "check", Name: claims.Expired, Least: 1},
		tally.Floor{Kind: "check", Name: claims.NotIdle, Least: 1},
		tally.Floor{Kind: "outcome", Name: claims.Known, Least: *jobs / 2},
	) {
		t.Error(failure)
	}
	if err := counts.Table(t.Output()); err != nil {
		t.Error(err)
	}
	slices.Sort(result.Distances)
	n := len(result.Distances)
	t.Logf("until the first worker was idle: %d claims, %.2f commands each beside the release; out of order by %d in the median, %d at most; idle: %d",
		result.Claims, float64(result.Commands-result.Claims)/float64(max(result.Claims, 1)), result.Distances[n/2], result.Distances[n-1], result.Idle)
}

// The check can fail: without locks jobs are done twice.
func TestWithoutLocksJobsAreDoneTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes")
	}
	var counts tally.Tally
	if _, err := claims.Run(t.Context(), claims.Config{
		URI: mongotest.URI(t), DB: mongotest.Database(t), Jobs: 50, Careless: true,
	}, &counts); err != nil {
		t.Fatal(err)
	}
	if counts.Violations[claims.Once] == 0 {
		t.Error("each job was done once")
	}
}
