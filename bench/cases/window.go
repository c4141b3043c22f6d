package cases

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/bench/subjects"
	"golang.org/x/perf/benchfmt"
)

// grace is the time that operations under way at the end of a window may take,
// uncounted, before they are cut off. Cutting off closes connections, which the
// next round would have to open again.
const grace = 500 * time.Millisecond

// window has n goroutines repeat op. Operations that are done by the end of the
// time count; no new one begins after it, and completed counts those that end later, too. A rival's error is counted, any
// other error ends the run.
func window(ctx context.Context, n int, length time.Duration, s *subjects.Subject, op func(context.Context) error) (all Round, completed int, _ error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu    sync.Mutex
		fault error
		group sync.WaitGroup
	)
	all.Counts, all.Took = make([]int, n), length
	before, end := s.Sent.Total(), time.Now().Add(length)
	for worker := range n {
		group.Go(func() {
			var own []time.Duration
			done := 0
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
				done++
				if now := time.Now(); now.Before(end) {
					own = append(own, now.Sub(begun))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.Latencies, completed = append(all.Latencies, own...), completed+done
			all.Counts[worker] = len(own)
		})
	}
	sleep(ctx, time.Until(end)) // if it ends early, so do the goroutines
	commands := s.Sent.Total() - before
	late := time.AfterFunc(grace, func() { cancel(nil) })
	group.Wait()
	late.Stop()
	all.Commands = commands
	return all, completed, fault
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
	_, _, err := window(ctx, min(n, 100), 0, s, func(ctx context.Context) error { return s.Client.Ping(ctx, nil) })
	return err
}

// sleep waits for a time, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Round is one subject's turn.
type Round struct {
	Latencies []time.Duration // of each operation, with its wait
	Commands  int64
	Took      time.Duration
	Counts    []int            // operations by goroutine, if several compete
	Failed    int              // operations that ended with an error, of a rival
	Lost      int              // confirmed writes of a rival that are missing
	Extra     []benchfmt.Value // the case's own
}

func (r Round) median() float64    { return percentile(r.Latencies, 50).Seconds() }
func (r Round) perSecond() float64 { return over(float64(len(r.Latencies)), r.Took.Seconds()) }

// values are what a line of any case has: the faults only if there are any.
func (r Round) values() []benchfmt.Value {
	ops := float64(len(r.Latencies))
	values := []benchfmt.Value{
		{Value: r.median(), Unit: "sec/op"}, {Value: percentile(r.Latencies, 99).Seconds(), Unit: "p99-sec/op"},
		{Value: r.perSecond(), Unit: "ops/s"}, {Value: over(float64(r.Commands), ops), Unit: "commands/op"},
	}
	if len(r.Counts) > 0 { // what the slowest competitor got
		values = append(values, benchfmt.Value{Value: over(float64(slices.Min(r.Counts)*len(r.Counts)), ops), Unit: "slowest-of-mean"})
	}
	return append(values, r.faults()...)
}

func (r Round) faults() []benchfmt.Value {
	all := []benchfmt.Value{{Value: float64(r.Failed), Unit: "FAILED"}, {Value: float64(r.Lost), Unit: "LOST-WRITES"}}
	return slices.DeleteFunc(all, func(v benchfmt.Value) bool { return v.Value == 0 })
}

// percentile is the lowest value that is not below p percent of them.
func percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

// over is a/b, or 0 if b is 0.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
