package cases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock/bench/subjects"
	"golang.org/x/perf/benchfmt"
	"golang.org/x/sync/errgroup"
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
		rounds, block := pick(r, 20, 6), pick(r, 40, 16)
		for _, s := range all {
			if err := s.Make(ctx, r.key(s)); err != nil {
				return err
			}
		}
		return r.inTurn(-1, rounds, all, func(s *subjects.Subject, _ int) (round Round, err error) {
			before := s.Sent.Total()
			for range block {
				start := time.Now()
				if err := op(ctx, s, r.key(s)); err != nil {
					return round, err
				}
				round.Latencies = append(round.Latencies, time.Since(start))
				round.Took += time.Since(start)
			}
			round.Commands = s.Sent.Total() - before
			return round, nil
		})
	}
}

// runHot has 64 goroutines of one process on one document. Each round has a new document, so that the remains of a
// rival's cut-off waiter do not affect the next round.
func runHot(ctx context.Context, r *Run, all []*subjects.Subject) error {
	crowd := func(s *subjects.Subject) int {
		if s.Name == "plain-alone" {
			return 1
		}
		return 64
	}
	for _, s := range all {
		if err := warmUp(ctx, s, crowd(s)); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return r.inTurn(0, pick(r, 9, 6), all, func(s *subjects.Subject, turn int) (Round, error) {
		key := fmt.Sprintf("%s %d", r.key(s), turn)
		if err := s.Make(ctx, key); err != nil {
			return Round{}, err
		}
		op := func(ctx context.Context) error { return s.Increment(ctx, key) }
		if err := op(ctx); err != nil { // some locks must be created first
			return Round{}, err
		}
		round, completed, err := window(ctx, crowd(s), pick(r, 2*time.Second, 500*time.Millisecond), s, op)
		if err != nil {
			return round, err
		}
		doc, err := s.Read(ctx, key)
		round.Lost = max(0, 1+completed-doc.Count)
		if err == nil && round.Lost > 0 && !s.Rival() {
			err = fmt.Errorf("%d of %d writes were lost", round.Lost, 1+completed)
		}
		return round, err
	})
}

// runIdle counts the commands of 100 waiters of one process while another client, with its own connections, holds the
// lock. All subjects wait at the same time, because none of them has any work.
func runIdle(ctx context.Context, r *Run, all []*subjects.Subject) error {
	length := pick(r, 30*time.Second, 6*time.Second)
	rounds := make([]Round, len(all))
	var group errgroup.Group
	for i, s := range all {
		group.Go(func() (err error) {
			if rounds[i], err = idle(ctx, r, s, length); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, s := range all {
		values := []benchfmt.Value{{Value: float64(rounds[i].Commands), Unit: "commands"}, {Value: length.Seconds(), Unit: "window-sec"}}
		if err := r.line(s.Name, 1, append(values, rounds[i].faults()...)); err != nil {
			return err
		}
	}
	return nil
}

func idle(ctx context.Context, r *Run, s *subjects.Subject, length time.Duration) (Round, error) {
	const waiters = 100
	key := r.key(s)
	holder, err := subjects.Open(&r.Servers, s.Name, r.now.ttl)
	if err != nil {
		return Round{}, err
	}
	defer holder.Close()
	if err := errors.Join(s.Make(ctx, key), s.Warm(waiters)); err != nil {
		return Round{}, err
	}
	unlock, err := holder.Lock(ctx, key)
	if err != nil {
		return Round{}, err
	}
	round, _, err := window(ctx, waiters, length, s, func(ctx context.Context) error {
		_, err := s.Lock(ctx, key)
		return cmp.Or(err, errors.New("a second holder was let in"))
	})
	return round, errors.Join(err, unlock(context.WithoutCancel(ctx)))
}
