package cases

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/doclock/doclock/bench/measure"
	"github.com/doclock/doclock/bench/subjects"
)

// windowed is the result of a window.
type windowed struct {
	measure.Round
	Completed int // after the window's end, too
}

// grace is the time that operations under way at the end of a window may take,
// uncounted, before they are cut off. Cutting off closes connections, which the
// next round would have to open again.
const grace = 500 * time.Millisecond

// window has n goroutines repeat op. Operations that are done by the end of the
// time count; no new one begins after it. A rival's error is counted, any other
// error ends the run.
func window(ctx context.Context, n int, length time.Duration, s *subjects.Subject, op func(context.Context) error) (windowed, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu    sync.Mutex
		all   windowed
		fault error
		group sync.WaitGroup
	)
	all.Counts, all.Took = make([]int, n), length
	before, end := s.Sent.Total(), time.Now().Add(length)
	for worker := range n {
		group.Go(func() {
			var own []time.Duration
			completed := 0
			for first := true; (first || time.Now().Before(end)) && ctx.Err() == nil; first = false {
				begun := time.Now()
				if err := op(ctx); err != nil {
					if cutOff(ctx, err) {
						break
					}
					mu.Lock()
					all.Failed++
					if mayFail := s.Rival() && all.Failed < 1000; !mayFail {
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
			all.Latencies, all.Completed = append(all.Latencies, own...), all.Completed+completed
			all.Counts[worker] = len(own)
		})
	}
	_ = sleep(ctx, time.Until(end)) // if it ends early, so do the goroutines
	commands := s.Sent.Total() - before
	late := time.AfterFunc(grace, func() { cancel(nil) })
	group.Wait()
	late.Stop()
	all.Commands = commands
	return all, fault
}

// cutOff reports whether an operation ended because its window did.
func cutOff(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// warmUp prepares n goroutines and their connections.
func warmUp(ctx context.Context, s *subjects.Subject, n int) error {
	if err := s.Warm(n); err != nil {
		return err
	}
	_, err := window(ctx, min(n, 100), 0, s, func(ctx context.Context) error { return s.Client.Ping(ctx, nil) })
	return err
}
