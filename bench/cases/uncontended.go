package cases

import (
	"context"

	"github.com/doclock/doclock/bench/measure"
	"github.com/doclock/doclock/bench/subjects"
)

// pair acquires and releases a lock.
func pair(ctx context.Context, s *subjects.Subject, key string) error {
	unlock, err := s.Lock(ctx, key)
	if err != nil {
		return err
	}
	return unlock(ctx)
}

func increment(ctx context.Context, s *subjects.Subject, key string) error {
	return s.Increment(ctx, key)
}

// uncontended runs op for each subject in turn, in short blocks, without other clients.
func uncontended(op func(ctx context.Context, s *subjects.Subject, key string) error) func(context.Context, *Run, []*subjects.Subject) error {
	return func(ctx context.Context, r *Run, all []*subjects.Subject) error {
		rounds, block := pick(r, 20, 5), pick(r, 40, 16)
		if r.now.over != nil {
			rounds, block = pick(r, 10, 3), pick(r, 12, 5)
		}
		for _, s := range all {
			if err := s.Make(ctx, r.key(s), subjects.Small); err != nil {
				return err
			}
		}
		return r.inTurn(-1, rounds, all, func(s *subjects.Subject, _ int) (measure.Round, error) {
			before := s.Sent.Total()
			round, err := measure.Timed(block, func() error { return op(ctx, s, r.key(s)) })
			round.Commands = s.Sent.Total() - before
			return round, err
		})
	}
}
