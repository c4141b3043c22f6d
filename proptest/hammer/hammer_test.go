package hammer_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/hammer"
	"github.com/doclock/doclock/proptest/tally"
)

func TestMain(m *testing.M) {
	hammer.Main()
	mongotest.Main(m)
}

// A short run, like the full one on a smaller scale.
func TestHammer(t *testing.T) {
	const operations = 1500
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	var total tally.Tally
	for name, faults := range map[string]bool{"calm": false, "stormy": true} {
		t.Run(name, func(t *testing.T) {
			h, counts, err := hammer.Run(ctx, hammer.Config{
				URI:       mongotest.URI(t),
				Processes: 2, ClientsPerProcess: 8,
				Operations: operations / 2,
				Documents:  6,
				Seed:       uint64(time.Now().UnixNano()),
				Faults:     faults,
			})
			if err != nil {
				t.Fatal(err)
			}
			if path := os.Getenv("HAMMER_HISTORY"); path != "" { // to inspect the history
				f, err := os.Create(path + "." + name)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if err := h.Encode(f); err != nil {
					t.Fatal(err)
				}
			}
			h.Check(counts)
			for _, failure := range counts.Failures() {
				t.Error(failure)
			}
			total.Merge(counts)
			if testing.Verbose() {
				if err := counts.Table(os.Stderr); err != nil {
					t.Error(err)
				}
			}
		})
	}
	hammer.Granted(&total)
	// A run this short sees a rare outcome only by chance.
	floors := slices.DeleteFunc(hammer.Floors(operations/4), func(f tally.Floor) bool { return f.Least == 1 })
	for _, failure := range total.Failures(floors...) {
		t.Error(failure)
	}
}
