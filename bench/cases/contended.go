package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/doclock/doclock/bench/subjects"
	"golang.org/x/perf/benchfmt"
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

// runReaders has 32 goroutines hold the lock of one document for 2 ms at a
// time: one time in twenty the lock of a writer, otherwise that of a reader.
func runReaders(ctx context.Context, r *Run, all []*subjects.Subject) error {
	const goroutines, hold, writersIn = 32, 2 * time.Millisecond, 20
	rounds, length := 6, pick(r, 3*time.Second, 600*time.Millisecond)
	for _, s := range all {
		if err := warmUp(ctx, s, goroutines); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return r.inTurn(0, rounds, all, func(s *subjects.Subject, turn int) (Round, error) {
		key := fmt.Sprintf("%s %d", r.key(s), turn)
		if err := s.Make(ctx, key); err != nil {
			return Round{}, err
		}
		if err := pair(ctx, s, key); err != nil { // some locks must be created first
			return Round{}, err
		}
		var mu sync.Mutex
		var writes []time.Duration
		round, _, err := window(ctx, goroutines, length, s, func(ctx context.Context) error {
			lock, write := s.LockShared, rand.N(writersIn) == 0
			if write {
				lock = s.Lock
			}
			begun := time.Now()
			unlock, err := lock(ctx, key)
			if err != nil {
				return err
			}
			if write {
				mu.Lock()
				writes = append(writes, time.Since(begun))
				mu.Unlock()
			}
			time.Sleep(hold)
			return unlock(context.WithoutCancel(ctx))
		})
		round.Extra = []benchfmt.Value{{Value: percentile(writes, 50).Seconds(), Unit: "write-wait-sec"}}
		return round, err
	})
}

// idleWaiters are the numbers of waiters.
var idleWaiters = []int{1, 10, 100}

// runIdle counts the commands of 1, 10 and 100 waiters of one process while
// another client holds the lock. All subjects wait at the same time, because
// none of them has any work.
func runIdle(ctx context.Context, r *Run, all []*subjects.Subject) error {
	length := pick(r, 30*time.Second, 6*time.Second)
	var groups []*idlers
	for i, s := range all {
		n := idleWaiters[i*len(idleWaiters)/len(all)]
		g := &idlers{Subject: s, n: n, key: fmt.Sprintf("%s %d", r.key(s), n)}
		free, err := g.hold(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		defer free()
		groups = append(groups, g)
	}
	r.Say("  waiting for %v", length)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, g := range groups {
		g.before = g.Sent.Total()
		for range g.n {
			g.waiters.Go(func() { g.wait(ctx) })
		}
	}
	if sleep(ctx, length); ctx.Err() != nil {
		return ctx.Err()
	}
	for _, g := range groups {
		g.sent = g.Sent.Total() - g.before
	}
	cancel()
	var faults []error
	for _, g := range groups {
		g.waiters.Wait()
		values := []benchfmt.Value{{Value: float64(g.sent), Unit: "commands"}, {Value: length.Seconds(), Unit: "window-sec"}}
		switch {
		case g.fault == nil:
		case g.Rival():
			r.Say("  %s: %v", g.Name, g.fault)
			values = append(values, benchfmt.Value{Value: 1, Unit: "FAILED"})
		default:
			faults = append(faults, fmt.Errorf("%s: %w", g.Name, g.fault))
		}
		faults = append(faults, r.line(fmt.Sprintf("%s/waiters=%d", g.Name, g.n), 1, values))
	}
	return errors.Join(faults...)
}

// idlers are the waiters of one lock.
type idlers struct {
	*subjects.Subject
	n            int
	key          string
	before, sent int64
	waiters      sync.WaitGroup
	mu           sync.Mutex
	fault        error
}

// hold has another client, with its own connections, acquire the lock.
func (g *idlers) hold(ctx context.Context, r *Run) (free func(), err error) {
	if err := errors.Join(g.Make(ctx, g.key), g.Warm(g.n)); err != nil {
		return nil, err
	}
	holder, err := subjects.Open(&r.Servers, g.Name, r.now.ttl)
	if err != nil {
		return nil, err
	}
	unlock, err := holder.Lock(ctx, g.key)
	if err != nil {
		holder.Close()
		return nil, err
	}
	return func() {
		_ = unlock(context.WithoutCancel(ctx))
		holder.Close()
	}, nil
}

func (g *idlers) wait(ctx context.Context) {
	_, err := g.Lock(ctx, g.key)
	if err == nil {
		err = errors.New("a second holder was let in")
	}
	if !cutOff(ctx, err) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.fault = err
	}
}
