// Package measure has what a case measures: rounds, results, and their medians and
// ratios.
package measure

import (
	"cmp"
	"slices"
	"time"
)

// Round is one subject's turn.
type Round struct {
	Latencies []time.Duration // of each operation, with its wait
	Commands  int64
	Took      time.Duration
	Counts    []int // operations by goroutine or process, if several compete
	Failed    int   // operations that ended with an error, of a rival
}

func (r Round) Ops() int           { return len(r.Latencies) }
func (r Round) P50() float64       { return Micros(Percentile(r.Latencies, 50)) }
func (r Round) PerSecond() float64 { return Over(float64(r.Ops()), r.Took.Seconds()) }
func (r Round) PerOp() float64     { return Over(float64(r.Commands), float64(r.Ops())) }

// Slowest is the share of the mean that the slowest competitor got.
func (r Round) Slowest() float64 {
	if len(r.Counts) == 0 {
		return 0
	}
	sum := 0
	for _, n := range r.Counts {
		sum += n
	}
	return Over(float64(slices.Min(r.Counts)*len(r.Counts)), float64(sum))
}

// Timed repeats an operation, one after the other.
func Timed(n int, operation func() error) (r Round, err error) {
	for range n {
		start := time.Now()
		if err := operation(); err != nil {
			return r, err
		}
		r.Latencies = append(r.Latencies, time.Since(start))
		r.Took += r.Latencies[len(r.Latencies)-1]
	}
	return r, nil
}

// Spread is a median with the lowest and the highest round.
type Spread struct{ Mid, Lo, Hi float64 }

// SpreadOf sorts the values.
func SpreadOf(values []float64) Spread {
	n := len(values)
	if n == 0 {
		return Spread{}
	}
	slices.Sort(values)
	return Spread{(values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1]}
}

// Percentile is the lowest value that is not below p percent of them.
func Percentile[T cmp.Ordered](values []T, p int) (v T) {
	if len(values) == 0 {
		return v
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Over is a/b, or 0 if b is 0.
func Over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
