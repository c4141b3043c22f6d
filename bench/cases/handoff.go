package cases

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/doclock/doclock/bench/measure"
	"github.com/doclock/doclock/bench/subjects"
	"github.com/doclock/doclock/internal/child"
)

// runHandoff measures the time from the moment when one process begins to
// release, to the moment when a waiter in another process has the lock. The
// lock was held, and waited for, for 50 to 150 ms before.
func runHandoff(ctx context.Context, r *Run, all []*subjects.Subject) error {
	rounds, block := pick(r, 10, 2), pick(r, 10, 6)
	if r.now.over != nil {
		rounds = pick(r, 4, 1)
	}
	waiters := map[string]*child.Process{}
	for _, s := range all {
		if err := s.Make(ctx, r.key(s), subjects.Small); err != nil {
			return err
		}
		waiter, err := r.spawn(ctx, "waiter", s, r.key(s))
		if err != nil {
			return err
		}
		defer dismiss(waiter)
		waiters[s.Name] = waiter
	}
	return r.inTurn(0, rounds, all, func(s *subjects.Subject, _ int) (round measure.Round, err error) {
		for range block {
			d, err := passOn(ctx, s, r.key(s), waiters[s.Name])
			if err != nil {
				return round, err
			}
			round.Latencies, round.Took = append(round.Latencies, d), round.Took+d
		}
		return round, nil
	})
}

func passOn(ctx context.Context, s *subjects.Subject, key string, waiter *child.Process) (time.Duration, error) {
	if _, err := waiter.Hear(); err != nil { // it is ready, and has released the lock
		return 0, err
	}
	unlock, err := s.Lock(ctx, key)
	if err != nil {
		return 0, err
	}
	if err := waiter.Proceed(); err != nil {
		return 0, err
	}
	time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond))
	released := time.Now()
	if err := unlock(ctx); err != nil {
		return 0, err
	}
	granted, err := hearTime(waiter)
	return granted.Sub(released), err
}
