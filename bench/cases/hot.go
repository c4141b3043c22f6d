package cases

import (
	"context"
	"fmt"
	"time"

	"github.com/doclock/doclock/bench/measure"
	"github.com/doclock/doclock/bench/subjects"
)

// hot is a case with this many goroutines of one process on one document.
func hot(goroutines int) func(context.Context, *Run, []*subjects.Subject) error {
	return func(ctx context.Context, r *Run, all []*subjects.Subject) error {
		rounds, length := pick(r, 5, 2), pick(r, 2*time.Second, 500*time.Millisecond)
		switch {
		case r.now.over != nil:
			rounds, length = pick(r, 4, 1), pick(r, 1500*time.Millisecond, 500*time.Millisecond)
		case goroutines == 64: // most of the targets depend on it, and its rounds differ much
			rounds = pick(r, 9, 2)
		case goroutines == 1000:
			rounds, length = pick(r, 3, 1), pick(r, 5*time.Second, 1500*time.Millisecond)
		}
		crowd := func(s *subjects.Subject) int {
			if s.Name == "plain-1" {
				return 1
			}
			return goroutines
		}
		for _, s := range all {
			r.result(s.Name).Add("goroutines", crowd(s))
			if err := warmUp(ctx, s, crowd(s)); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		err := r.inTurn(0, rounds, all, func(s *subjects.Subject, turn int) (measure.Round, error) {
			return r.contend(ctx, s, fmt.Sprintf("%s %d", r.key(s), turn), crowd(s), length)
		})
		r.fairness()
		return err
	}
}

// contend is one round of n goroutines on one document. Each round has a new
// document, so that the remains of a rival's cut-off waiter do not affect the
// next round.
func (r *Run) contend(ctx context.Context, s *subjects.Subject, key string, n int, length time.Duration) (measure.Round, error) {
	if err := s.Make(ctx, key, subjects.Small); err != nil {
		return measure.Round{}, err
	}
	op := func(ctx context.Context) error { return s.Increment(ctx, key) }
	if err := op(ctx); err != nil { // some locks must be created first
		return measure.Round{}, err
	}
	w, err := window(ctx, n, length, s, op)
	if err != nil {
		return measure.Round{}, err
	}
	return w.Round, r.audit(ctx, s, key, 1+w.Completed)
}

// audit checks whether the document has all confirmed increments. Lost ones of
// a rival are reported; of other subjects they are an error.
func (r *Run) audit(ctx context.Context, s *subjects.Subject, key string, confirmed int) error {
	doc, err := s.Read(ctx, key)
	if err != nil || doc.Count >= confirmed {
		return err
	}
	if !s.Rival() {
		return fmt.Errorf("%d of %d writes were lost", confirmed-doc.Count, confirmed)
	}
	r.result(s.Name).Lost += confirmed - doc.Count
	return nil
}

// fairness adds the share of the slowest competitor, in the worst round, and
// the lost writes, to the results of the case that runs.
func (r *Run) fairness() {
	for _, one := range r.Results {
		if one.Case == r.now.Name {
			one.Add("slowest_share_of_mean", measure.Rounded(one.Of(measure.Round.Slowest).Lo))
			one.AddFaults()
		}
	}
}
