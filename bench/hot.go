package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// hot is a case with this many goroutines of one process on one document.
func hot(goroutines int) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		kase, rounds, length := b.now.name, pick(b, 5, 2), pick(b, 2*time.Second, 500*time.Millisecond)
		switch {
		case b.now.over != nil:
			rounds, length = pick(b, 4, 1), pick(b, 1500*time.Millisecond, 500*time.Millisecond)
		case goroutines == 64: // most of the targets depend on it, and its rounds differ much
			rounds = pick(b, 9, 2)
		case goroutines == 1000:
			rounds, length = pick(b, 3, 1), pick(b, 5*time.Second, 1500*time.Millisecond)
		}
		// plain-1 is a single client that sends plain $incs one after another.
		all, closeAll, err := b.openAll(ctx, ttl, slices.Concat([]string{"plain-1"}, writers)...)
		if err != nil {
			return err
		}
		defer closeAll()
		crowd := func(s named) int {
			if s.name == "plain-1" {
				return 1
			}
			return goroutines
		}
		for _, s := range all {
			b.newResult(kase, s.name).add("goroutines", crowd(s))
			if err := warmUp(ctx, s, crowd(s)); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		for turn := range rounds {
			b.say("  round %d of %d", turn+1, rounds)
			for _, s := range shuffled(all) {
				r := b.find(kase, s.name)
				if err := b.contend(ctx, r, s, fmt.Sprintf("%s %s %d", kase, s.name, turn), crowd(s), length); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
		}
		b.fairness(kase)
		return nil
	}
}

// warmUp prepares n goroutines and their connections.
func warmUp(ctx context.Context, s named, n int) error {
	if w, needs := s.subject.(warmer); needs {
		if err := w.warm(ctx, n); err != nil {
			return err
		}
	}
	_, err := window(ctx, min(n, 100), 0, s, func(ctx context.Context, _ int) error { return s.ping(ctx) })
	return err
}

// contend is one round of n goroutines on one document. Each round has a new
// document, so that the remains of a rival's cut-off waiter do not affect the
// next round.
func (b *bench) contend(ctx context.Context, r *result, s named, key string, n int, length time.Duration) error {
	if err := b.servers.document(ctx, key, small); err != nil {
		return err
	}
	op := func(ctx context.Context, _ int) error { return s.subject.(incrementer).increment(ctx, key) }
	if err := op(ctx, 0); err != nil { // some locks must be created first
		return err
	}
	w, err := window(ctx, n, length, s, op)
	if err != nil {
		return err
	}
	if err := b.audit(ctx, r, key, 1+w.completed); err != nil {
		return err
	}
	r.rounds = append(r.rounds, w.round)
	return nil
}

// audit checks whether the document has all confirmed increments. Lost ones of
// a rival are reported; of other subjects they are an error.
func (b *bench) audit(ctx context.Context, r *result, key string, confirmed int) error {
	count, err := b.servers.count(ctx, key)
	if err != nil || count >= confirmed {
		return err
	}
	if !rival(r.subject) {
		return fmt.Errorf("%d of %d writes were lost", confirmed-count, confirmed)
	}
	r.lost += confirmed - count
	return nil
}

// fairness adds the share of the slowest competitor, in the worst round, and
// the lost writes.
func (b *bench) fairness(kase string) {
	for _, r := range b.results {
		if r.kase == kase {
			r.add("slowest_share_of_mean", rounded(r.of(round.slowest).lo))
			if r.lost > 0 {
				r.add("LOST_WRITES", r.lost)
			}
			if failed := r.failed(); failed > 0 {
				r.add("FAILED", failed)
			}
		}
	}
}

// windowed is the result of a window.
type windowed struct {
	round
	completed int // after the window's end, too
}

// grace is the time that operations under way at the end of a window may take,
// uncounted, before they are cut off. Cutting off closes connections, which the
// next round would have to open again.
const grace = 500 * time.Millisecond

// window has n goroutines repeat op. Operations that are done by the end of the
// time count; no new one begins after it. A rival's error is counted, any other
// error ends the run.
func window(ctx context.Context, n int, length time.Duration, s named, op func(ctx context.Context, worker int) error) (windowed, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu    sync.Mutex
		all   windowed
		fault error
		group sync.WaitGroup
	)
	all.counts = make([]int, n)
	all.took = length
	before, start := s.sent().total(), time.Now()
	end := start.Add(length)
	for worker := range n {
		group.Go(func() {
			var own []time.Duration
			completed := 0
			for first := true; (first || time.Now().Before(end)) && ctx.Err() == nil; first = false {
				begun := time.Now()
				if err := op(ctx, worker); err != nil {
					if cutOff(ctx, err) {
						break
					}
					mu.Lock()
					all.failed++
					if mayFail := rival(s.name) && all.failed < 1000; !mayFail {
						fault = err
						cancel(err)
					}
					mu.Unlock()
					continue
				}
				completed++
				if now := time.Now(); now.Before(end) {
					own = append(own, now.Sub(begun))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.latencies, all.completed = append(all.latencies, own...), all.completed+completed
			all.counts[worker] = len(own)
		})
	}
	select {
	case <-time.After(time.Until(end)):
	case <-ctx.Done():
	}
	commands := s.sent().total() - before
	late := time.AfterFunc(grace, func() { cancel(nil) })
	group.Wait()
	late.Stop()
	all.commands = commands
	return all, fault
}
