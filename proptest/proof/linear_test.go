package proof

import (
	"os"
	"testing"
	"time"

	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/history/byhand"
	"github.com/doclock/doclock/proptest/tally"
)

// No order explains the first history of each of these, and one explains the second.
func TestLinearizable(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	text, err := os.ReadFile("testdata/locks.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range byhand.Stories(string(text)) {
		t.Run(s.Name, func(t *testing.T) {
			for h, explained := range map[*history.History]bool{s.Refused: false, s.Accepted: true} {
				var counts tally.Tally
				linearizable(h, &counts, 10*time.Second)
				ok := counts.Violations[PropertyLinear] == 0
				if ok != explained || counts.Outcomes["documents whose order was not found in time"] > 0 {
					t.Errorf("accepted: %v, want %v", ok, explained)
				}
			}
		})
	}
}
