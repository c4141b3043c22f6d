package scenarios

import (
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/tally"
)

func TestMain(m *testing.M) {
	Main()
	mongotest.Main(m)
}

// Each scenario once, in virtual time where no process is killed. The proof runs them
// on a server, and more often.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, s := range All {
		run := func(t *testing.T) {
			var counts tally.Tally
			s.Run(t, 1, &counts)
			for _, failure := range counts.Failures(s.Floors(1)...) {
				t.Error(failure)
			}
			if testing.Verbose() {
				if err := counts.Table(t.Output()); err != nil {
					t.Error(err)
				}
			}
		}
		if s.Virtual {
			mongotest.RunVirtual(t, s.Name, run)
		} else {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				run(t)
			})
		}
	}
}

// The checks can fail: without locks the sum changes, and jobs are done twice.
func TestWithoutLocks(t *testing.T) {
	t.Parallel()
	t.Run("transfers", func(t *testing.T) {
		t.Parallel()
		var counts tally.Tally
		m := newMint(t, &counts, clients, true)
		for range 5 {
			m.getThrough(clients, m.all...)
		}
		m.settle()
		if counts.Violations[conserved] == 0 {
			t.Errorf("the sum has not changed in %d transfers", m.done)
		}
	})
	t.Run("claims", func(t *testing.T) {
		t.Parallel()
		var counts tally.Tally
		work(t, 1, 40, true, &counts)
		if counts.Violations[once] == 0 {
			t.Error("each job was done once")
		}
	})
}
