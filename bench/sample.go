package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// round is one subject's turn.
type round struct {
	latencies []time.Duration // of each operation, with its wait
	commands  int64
	took      time.Duration
	counts    []int // operations by goroutine or process, if several compete
	failed    int   // operations that ended with an error, of a rival
}

func (r round) ops() int { return len(r.latencies) }

func (r round) p50() float64       { return micros(percentile(r.latencies, 50)) }
func (r round) perSecond() float64 { return over(float64(r.ops()), r.took.Seconds()) }
func (r round) perOp() float64     { return over(float64(r.commands), float64(r.ops())) }

// slowest is the share of the mean that the slowest competitor got.
func (r round) slowest() float64 {
	if len(r.counts) == 0 {
		return 0
	}
	sum := 0
	for _, n := range r.counts {
		sum += n
	}
	return over(float64(slices.Min(r.counts)*len(r.counts)), float64(sum))
}

// result is all of one subject's rounds in one case.
type result struct {
	kase, subject string
	rounds        []round
	lost          int     // confirmed writes that are missing
	extra         []extra // the case's extra values
}

type extra struct {
	key   string
	value any
}

func (r *result) add(key string, value any) { r.extra = append(r.extra, extra{key, value}) }

func (r *result) latencies() (all []time.Duration) {
	for _, round := range r.rounds {
		all = append(all, round.latencies...)
	}
	return all
}

func (r *result) failed() (n int) {
	for _, round := range r.rounds {
		n += round.failed
	}
	return n
}

func (r *result) ops() int { return len(r.latencies()) }

// spread is a median with the lowest and the highest round.
type spread struct{ mid, lo, hi float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	return spread{median(values), values[0], values[len(values)-1]}
}

// of is the spread of a value over the rounds.
func (r *result) of(f func(round) float64) spread {
	var values []float64
	for _, round := range r.rounds {
		values = append(values, f(round))
	}
	return spreadOf(values)
}

// ratio compares two subjects within each round, so that a slow moment of the
// machine affects both. It is infinite if b did nothing.
func ratio(a, b *result, f func(round) float64) spread {
	var values []float64
	for i := range min(len(a.rounds), len(b.rounds)) {
		values = append(values, f(a.rounds[i])/f(b.rounds[i]))
	}
	return spreadOf(values)
}

// difference compares two subjects within each round, too.
func difference(a, b *result, f func(round) float64) spread {
	var values []float64
	for i := range min(len(a.rounds), len(b.rounds)) {
		values = append(values, f(a.rounds[i])-f(b.rounds[i]))
	}
	return spreadOf(values)
}

func median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func percentile[T cmp.Ordered](values []T, p int) (v T) {
	if len(values) == 0 {
		return v
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// over is a/b, or 0 if b is 0.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// shuffled is the order of turns in a round. Some subjects leave work at the
// server, and they must not always be followed by the same ones.
func shuffled[T any](turns []T) []T {
	turns = slices.Clone(turns)
	rand.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	return turns
}

// newResult adds a result, which the case fills.
func (b *bench) newResult(kase, subject string) *result {
	r := &result{kase: kase, subject: subject}
	b.results = append(b.results, r)
	return r
}

// find is the result of a case and subject, with the extra value if a key is given, or nil.
func (b *bench) find(kase, subject string, with ...extra) *result {
	for _, r := range b.results {
		if r.kase == kase && r.subject == subject && !slices.ContainsFunc(with, func(e extra) bool { return !slices.Contains(r.extra, e) }) {
			return r
		}
	}
	return nil
}

// number is an extra value as a number.
func (r *result) number(key string) float64 {
	for _, e := range r.extra {
		if e.key == key {
			switch v := e.value.(type) {
			case int:
				return float64(v)
			case int64:
				return float64(v)
			case float64:
				return v
			}
		}
	}
	return 0
}
