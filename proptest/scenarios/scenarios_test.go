package scenarios

import (
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/tally"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// Each scenario once, in virtual time if it can. The proof runs them more often, and on a
// server if they can.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, s := range All {
		var counts tally.Tally
		s.Run(t, false, 1, &counts)
		for _, failure := range counts.Failures(s.Floors(1)...) {
			t.Error(failure)
		}
		if testing.Verbose() {
			if err := counts.Table(t.Output()); err != nil {
				t.Error(err)
			}
		}
	}
}

// The checks can fail: without locks jobs are done twice.
func TestWithoutLocks(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		var counts tally.Tally
		work(counting{t, &counts}, true)
		if counts.Violations[once] == 0 {
			t.Error("each job was done once")
		}
	})
}
