package measure

import (
	"math"
	"slices"
	"time"
)

// Result is all of one subject's rounds in one case.
type Result struct {
	Case, Subject string
	Rounds        []Round
	Lost          int     // confirmed writes that are missing
	Extra         []Extra // the case's extra values
}

// Extra is a further value: a number, a text, or, under a key that ends with
// OfRounds, the lowest and the highest round of the value before.
type Extra struct {
	Key   string
	Value any
}

// OfRounds ends the key of the spread of what has the key before it.
const OfRounds = "_rounds"

func (r *Result) Add(key string, value any) { r.Extra = append(r.Extra, Extra{key, value}) }

// AddSpread adds a value with its lowest and its highest round.
func (r *Result) AddSpread(key string, s Spread) {
	r.Add(key, Rounded(s.Mid))
	r.Add(key+OfRounds, s.Ends())
}

// AddFaults adds the writes that were lost and the operations that failed, if any.
func (r *Result) AddFaults() {
	failed := 0
	for _, round := range r.Rounds {
		failed += round.Failed
	}
	if r.Lost > 0 {
		r.Add("LOST_WRITES", r.Lost)
	}
	if failed > 0 {
		r.Add("FAILED", failed)
	}
}

// Number is an extra value as a number.
func (r *Result) Number(key string) float64 {
	for _, e := range r.Extra {
		if e.Key == key {
			switch v := e.Value.(type) {
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

// Spread is an extra value with its rounds, if it has them.
func (r *Result) Spread(key string) Spread {
	s := Spread{Mid: r.Number(key)}
	for _, e := range r.Extra {
		if ends, ok := e.Value.([2]float64); ok && e.Key == key+OfRounds {
			s.Lo, s.Hi = ends[0], ends[1]
		}
	}
	return s
}

func (r *Result) Latencies() (all []time.Duration) {
	for _, round := range r.Rounds {
		all = append(all, round.Latencies...)
	}
	return all
}

// Of is the spread of a value over the rounds.
func (r *Result) Of(f func(Round) float64) Spread {
	var values []float64
	for _, round := range r.Rounds {
		values = append(values, f(round))
	}
	return SpreadOf(values)
}

// Ratio compares two subjects within each round, so that a slow moment of the
// machine affects both. It is infinite if b did nothing.
func Ratio(a, b *Result, f func(Round) float64) Spread {
	var values []float64
	for i := range min(len(a.Rounds), len(b.Rounds)) {
		values = append(values, f(a.Rounds[i])/f(b.Rounds[i]))
	}
	return SpreadOf(values)
}

// Results are those of a run, in the order of its tables.
type Results []*Result

// New adds a result, which the case fills.
func (all *Results) New(kase, subject string) *Result {
	r := &Result{Case: kase, Subject: subject}
	*all = append(*all, r)
	return r
}

// Find is the result of a case and subject that has these extra values, or nil.
func (all Results) Find(kase, subject string, with ...Extra) *Result {
	for _, r := range all {
		lacks := func(e Extra) bool { return !slices.Contains(r.Extra, e) }
		if r.Case == kase && r.Subject == subject && !slices.ContainsFunc(with, lacks) {
			return r
		}
	}
	return nil
}

// Ends are the lowest and the highest round.
func (s Spread) Ends() [2]float64 { return [2]float64{Rounded(s.Lo), Rounded(s.Hi)} }

// Rounded keeps three significant digits.
func Rounded(f float64) float64 {
	if f == 0 || math.IsInf(f, 0) {
		return f
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(f))))
	if scale < 1 {
		return math.Round(f)
	}
	return math.Round(f*scale) / scale
}
