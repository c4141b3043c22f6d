package cases

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/doclock/doclock/bench/measure"
	"github.com/doclock/doclock/bench/subjects"
)

// runReaders has 32 goroutines hold the lock of one document for 2 ms at a
// time: one time in twenty the lock of a writer, otherwise that of a reader.
func runReaders(ctx context.Context, r *Run, all []*subjects.Subject) error {
	const goroutines, hold, writersIn = 32, 2 * time.Millisecond, 20
	rounds, length := pick(r, 5, 2), pick(r, 3*time.Second, 600*time.Millisecond)
	for _, s := range all {
		if err := warmUp(ctx, s, goroutines); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	var mu sync.Mutex
	writes := map[string][]time.Duration{}
	err := r.inTurn(0, rounds, all, func(s *subjects.Subject, turn int) (measure.Round, error) {
		key := fmt.Sprintf("%s %d", r.key(s), turn)
		if err := s.Make(ctx, key, subjects.Small); err != nil {
			return measure.Round{}, err
		}
		if err := pair(ctx, s, key); err != nil { // some locks must be created first
			return measure.Round{}, err
		}
		w, err := window(ctx, goroutines, length, s, func(ctx context.Context) error {
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
				writes[s.Name] = append(writes[s.Name], time.Since(begun))
				mu.Unlock()
			}
			time.Sleep(hold)
			return unlock(context.WithoutCancel(ctx))
		})
		return w.Round, err
	})
	for _, s := range all {
		one, waits := r.result(s.Name), writes[s.Name]
		one.Add("writes", len(waits))
		one.Add("write_wait_p50_ms", measure.Rounded(measure.Micros(measure.Percentile(waits, 50))/1000))
		one.Add("write_wait_p99_ms", measure.Rounded(measure.Micros(measure.Percentile(waits, 99))/1000))
	}
	r.fairness()
	return err
}
