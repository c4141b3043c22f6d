package cases

import (
	"fmt"
	"math"

	"github.com/doclock/doclock/bench/measure"
)

// Target is what the run must show.
type Target struct {
	What string
	Limit
	Measured
}

// Limit is the highest or the lowest allowed value.
type Limit struct {
	Sign  string // ≤ or ≥; empty for a target that is only stated
	Value float64
}

func atMost(value float64) Limit  { return Limit{"≤", value} }
func atLeast(value float64) Limit { return Limit{"≥", value} }

var stated Limit

// Verdict compares a value with the limit.
func (l Limit) Verdict(value float64) string {
	switch {
	case l.Sign == "":
		return "stated"
	case l.Sign == "≤" && value <= l.Value, l.Sign == "≥" && value >= l.Value:
		return "met"
	default:
		return "NOT MET"
	}
}

// Measured is the value, if the cases that it needs were run.
type Measured struct {
	measure.Spread
	Shown bool
	Note  string
}

// answers are a run's results, which the targets are about.
type answers struct{ measure.Results }

// Targets are those of a run, each with its limit. Ratios are medians over the
// rounds, each subject compared with its rival in the same round.
func Targets(all measure.Results) []Target {
	r := answers{all}
	p50, perSecond, perOp := measure.Round.P50, measure.Round.PerSecond, measure.Round.PerOp
	mongo := []string{"monglock-write", "monglock-multi", "find-upsert"}
	targets := []Target{
		{"1. pair: time, over two plain findOneAndUpdate", atMost(1.25), r.compare("pair", "plain", p50)},
		{"1. pair: time, over monglock's writeLock", atMost(0.85), r.compare("pair", "monglock-write", p50)},
		{"1. pair: time, over monglock's multiLock", atMost(0.7), r.compare("pair", "monglock-multi", p50)},
		{"2. rmw: commands", atMost(2), r.of("rmw", "doclock", perOp)},
		{"2. rmw: time, over the optimistic version loop", atMost(1.4), r.compare("rmw", "optimistic", p50)},
		{"2. rmw: time, over the fastest other lock in MongoDB", atMost(0.7), r.worst("rmw", mongo, p50, 1)},
		{"3. hot64: commands per critical section", atMost(1.1), r.of("hot64", "doclock", perOp)},
		{"3. hot64: throughput, over one client's plain $incs one after another", atLeast(0.7), r.compare("hot64", "plain-1", perSecond)},
		{"3. hot64: throughput, over the optimistic loop", atLeast(5), r.compare("hot64", "optimistic", perSecond)},
		{"3. hot64: throughput, over the fastest polling rival in MongoDB", atLeast(10), r.worst("hot64", mongo, perSecond, -1)},
		{"3. hot64: throughput, over the polling rival in redis", atLeast(10), r.compare("hot64", "redislock", perSecond)},
		{"3. hot64: the slowest goroutine's share of the mean, worst round", atLeast(0.5), r.extra("hot64", "doclock", "slowest_share_of_mean")},
		{"4. processes: the slowest process's share of its fair share, worst round", atLeast(0.5), r.extra("processes", "doclock", "slowest_share_of_mean")},
		{"4. processes: throughput, over hot64", atLeast(0.5), r.across()},
		{"5. idle 30 s: commands of one waiter", atMost(120), r.idle(1)},
		{"5. idle 30 s: commands of 100 waiters in one process", atMost(130), r.idle(100)},
	}
	for _, kase := range []string{"rmw", "hot64", "processes"} {
		for _, rival := range []string{"redislock", "etcd"} {
			targets = append(targets, Target{fmt.Sprintf("8. %s: throughput, over %s's", kase, rival), stated, r.compare(kase, rival, perSecond)})
		}
	}
	targets = append(targets,
		Target{"9. claim: commands per claim, without the final write", atMost(1.5), r.of("claim", "doclock", perOp)},
		Target{"9. claim: documents that were claimed twice", atMost(0), r.extra("claim", "doclock", "claimed_twice")},
		Target{"9. claim: documents that were never claimed", atMost(0), r.extra("claim", "doclock", "left")},
		Target{"9. claim: throughput, over 8 workers that find and try", atLeast(5), r.compare("claim", "find-try-8", perSecond)},
		Target{"9. claim: share of the workers' time without a document", stated, r.extra("claim", "doclock", "idle_share")},
		Target{"9. claim: places off (documents of higher priority that were claimed later), median", atMost(32), r.extra("claim", "doclock", "places_off_p50")},
		Target{"9. claim: the same, worst", atMost(128), r.extra("claim", "doclock", "places_off_max")},
		Target{"9. claim: documents of lower priority that were claimed before, worst", atMost(192), r.extra("claim", "doclock", "overtaken_max")},
		Target{"9. claim: places off of a lone claimant beside 24, worst", atMost(2), r.extra("claim", "doclock-lone", "places_off_max")},
		Target{"9. claim: commands of a lone claimant beside 24, per claim", atMost(2.2), r.of("claim", "doclock-lone", perOp)},
		Target{"9. claim: throughput, over a plain findAndModify (not safe)", stated, r.compare("claim", "find-and-modify", perSecond)},
	)
	for _, d := range Latencies {
		number, over := fmt.Sprintf("10. network of %v: ", d), func(kase string) string { return onNetwork(kase, d) }
		targets = append(targets,
			Target{number + "milliseconds that it adds to a plain command", stated, r.added(over("rmw"))},
			Target{number + "pair: time, over two plain findOneAndUpdate", atMost(1.05), r.compare(over("pair"), "plain", p50)},
			Target{number + "rmw: time, over the optimistic version loop", atMost(1.05), r.compare(over("rmw"), "optimistic", p50)},
			Target{number + "hot64: throughput, over the optimistic loop", atLeast(8), r.compare(over("hot64"), "optimistic", perSecond)},
			Target{number + "hot64: throughput, over redislock's", atLeast(1.8), r.compare(over("hot64"), "redislock", perSecond)},
			Target{number + "claim: throughput, over 8 workers that find and try", stated, r.compare(over("claim"), "find-try-8", perSecond)},
			Target{number + "claim: throughput, over a plain findAndModify (not safe)", stated, r.compare(over("claim"), "find-and-modify", perSecond)},
		)
	}
	return targets
}

// of is doclock's value of a case, without a rival.
func (r answers) of(kase, subject string, f func(measure.Round) float64) (m Measured) {
	if one := r.Find(kase, subject); one != nil {
		m.Shown, m.Spread = true, one.Of(f)
	}
	return m
}

// extra is an extra value, with its rounds if it has them.
func (r answers) extra(kase, subject, key string) (m Measured) {
	if one := r.Find(kase, subject); one != nil {
		m.Shown, m.Spread = true, one.Spread(key)
	}
	return m
}

// added is what a network adds to a plain command, in milliseconds.
func (r answers) added(kase string) (m Measured) {
	if far, near := r.Find(kase, "plain"), r.Find("rmw", "plain"); far != nil && near != nil {
		m.Shown, m.Mid = true, (far.Of(measure.Round.P50).Mid-near.Of(measure.Round.P50).Mid)/1000
	}
	return m
}

// compare is doclock's value of a case over a rival's.
func (r answers) compare(kase, rival string, f func(measure.Round) float64) (m Measured) {
	if ours, theirs := r.Find(kase, "doclock"), r.Find(kase, rival); ours != nil && theirs != nil {
		m.Shown, m.Spread = true, measure.Ratio(ours, theirs, f)
	}
	return m
}

// worst compares with the rival that gives the worst result: the highest if sign is
// 1, the lowest if it is -1.
func (r answers) worst(kase string, rivals []string, f func(measure.Round) float64, sign float64) (worst Measured) {
	for _, rival := range rivals {
		m := r.compare(kase, rival, f)
		if m.Note = rival; m.Shown && (!worst.Shown || sign*m.Mid > sign*worst.Mid) {
			worst = m
		}
	}
	return worst
}

// across compares the throughput of processes with that of goroutines.
func (r answers) across() (m Measured) {
	if one, other := r.Find("processes", "doclock"), r.Find("hot64", "doclock"); one != nil && other != nil {
		m.Shown, m.Mid = true, measure.Over(one.Of(measure.Round.PerSecond).Mid, other.Of(measure.Round.PerSecond).Mid)
	}
	return m
}

// idle is counted over 30 s. A quick run counts for a shorter time and
// multiplies, which overstates: most commands are sent early.
func (r answers) idle(waiters int) (m Measured) {
	if one := r.Find("idle", "doclock", measure.Extra{Key: "waiters", Value: waiters}); one != nil {
		window := one.Number("window_s")
		m.Shown, m.Mid = true, math.Round(one.Number("commands")*30/window)
		if window != 30 {
			m.Note = fmt.Sprintf("extrapolated from %v s", window)
		}
	}
	return m
}
