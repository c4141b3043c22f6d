package cases

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock/bench/measure"
	"github.com/doclock/doclock/bench/subjects"
)

// runProcesses has four processes compete for one document.
func runProcesses(ctx context.Context, r *Run, all []*subjects.Subject) error {
	const processes, goroutines = 4, 16
	rounds, length := pick(r, 5, 2), pick(r, 2*time.Second, 700*time.Millisecond)
	for _, s := range all {
		r.result(s.Name).Add("processes", processes)
		r.result(s.Name).Add("goroutines_each", goroutines)
	}
	err := r.inTurn(0, rounds, all, func(s *subjects.Subject, turn int) (measure.Round, error) {
		key := fmt.Sprintf("%s %d", r.key(s), turn)
		if err := s.Make(ctx, key, subjects.Small); err != nil {
			return measure.Round{}, err
		}
		e := errand{Role: "competitor", Subject: s.Name, Key: key, Goroutines: goroutines, Window: length}
		round, completed := measure.Round{Took: length}, 0
		err := together(ctx, r, slices.Repeat([]errand{e}, processes), func(_ int, w windowed) {
			round.Latencies = append(round.Latencies, w.Latencies...)
			round.Counts = append(round.Counts, w.Ops())
			round.Commands += w.Commands
			round.Failed += w.Failed
			completed += w.Completed
		})
		if err != nil {
			return round, err
		}
		return round, r.audit(ctx, s, key, completed)
	})
	r.fairness()
	return err
}
