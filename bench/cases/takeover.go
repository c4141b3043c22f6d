package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock/bench/measure"
	"github.com/doclock/doclock/bench/subjects"
	"golang.org/x/sync/errgroup"
)

// runTakeover kills the process that holds a lock, 100 ms after its grant, and
// measures how long a waiter has to go on waiting. All subjects wait at the same
// time.
func runTakeover(ctx context.Context, r *Run, all []*subjects.Subject) error {
	for _, s := range all {
		r.result(s.Name).Add("ttl_ms", r.now.ttl.Milliseconds())
	}
	for n := range pick(r, 5, 2) {
		var group errgroup.Group
		for _, s := range all {
			one := r.result(s.Name)
			group.Go(func() error {
				before := s.Sent.Total()
				took, err := r.takeOver(ctx, s, fmt.Sprintf("%s %d", r.key(s), n))
				if err != nil {
					return fmt.Errorf("%s: %w", s.Name, err)
				}
				one.Rounds = append(one.Rounds, measure.Round{Latencies: []time.Duration{took}, Took: took, Commands: s.Sent.Total() - before})
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) takeOver(ctx context.Context, s *subjects.Subject, key string) (time.Duration, error) {
	if err := s.Make(ctx, key, subjects.Small); err != nil {
		return 0, err
	}
	holder, err := r.spawn(ctx, "holder", s, key)
	if err != nil {
		return 0, err
	}
	if _, err := holder.Hear(); err != nil { // it has the lock
		return 0, errors.Join(err, holder.End())
	}
	killed := make(chan time.Time, 1)
	timer := time.AfterFunc(100*time.Millisecond, func() { killed <- time.Now(); dismiss(holder) })
	ctx, cancel := context.WithTimeout(ctx, 10*r.now.ttl)
	defer cancel()
	unlock, err := s.Lock(ctx, key)
	granted := time.Now()
	if timer.Stop() {
		dismiss(holder)
		return 0, errors.New("the lock was granted beside its holder")
	}
	if err != nil {
		return 0, err
	}
	return granted.Sub(<-killed), unlock(context.WithoutCancel(ctx))
}
