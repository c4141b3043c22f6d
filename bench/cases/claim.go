package cases

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock/bench/measure"
	"github.com/doclock/doclock/bench/subjects"
)

// crews are the workers of a claim, in four processes.
var crews = []struct {
	name, subject string
	shown         int // as the number of workers
	workers       []int
}{
	{"doclock", "doclock-claim", 32, []int{8, 8, 8, 8}},
	{"doclock-lone", "doclock-claim", 24, []int{1, 8, 8, 8}}, // 24 beside the one whose claims count
	{"find-and-modify", "find-and-modify", 32, []int{8, 8, 8, 8}},
	{"find-try-8", "find-try-8", 8, []int{2, 2, 2, 2}},
}

// runClaim has the workers of four processes empty a queue: each claims the
// pending document of the highest priority, and finishes it at once. The
// commands of a claim are the look-ups and the tries; the final write is one
// more, and not counted. The latency is the time from a worker's wish to its
// document, in which it is idle.
func runClaim(ctx context.Context, r *Run, all []*subjects.Subject) error {
	rounds, documents, limit := pick(r, 3, 1), pick(r, 2000, 300), pick(r, 8*time.Second, 3*time.Second)
	if r.now.over != nil {
		rounds = pick(r, 2, 1)
	}
	tallies := map[string][]tally{}
	for _, c := range crews {
		r.result(c.name).Add("workers", c.shown)
	}
	for turn := range rounds {
		r.Say("  round %d of %d", turn+1, rounds)
		for _, c := range shuffled(crews) {
			s := all[slices.IndexFunc(all, func(s *subjects.Subject) bool { return s.Name == c.subject })]
			if err := s.Fill(ctx, documents); err != nil {
				return err
			}
			var errands []errand
			for _, n := range c.workers {
				errands = append(errands, errand{Role: "claimant", Subject: c.subject, Goroutines: n, Window: limit})
			}
			var got claims
			workers := 0
			err := together(ctx, r, errands, func(process int, one claims) {
				if c.name == "doclock-lone" && process > 0 {
					got.Beside = append(got.Beside, one.All...)
					return
				}
				workers += errands[process].Goroutines
				got.add(one)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			one := got.count(workers, documents)
			finished, err := s.Finished(ctx)
			if err != nil {
				return err
			}
			result := r.result(c.name)
			result.Lost += documents - one.left - int(finished)
			if !s.Rival() && (result.Lost > 0 || one.twice > 0) {
				return fmt.Errorf("%s: %d documents were claimed twice, %d final writes were lost", c.name, one.twice, result.Lost)
			}
			result.Rounds = append(result.Rounds, one.Round)
			tallies[c.name] = append(tallies[c.name], one)
		}
	}
	for _, c := range crews {
		addTallies(r.result(c.name), tallies[c.name])
	}
	return nil
}

// addTallies adds what the rounds came to: sums, medians, and the highest.
func addTallies(r *measure.Result, all []tally) {
	var sum tally
	var idle []float64
	var longest time.Duration
	for _, t := range all {
		sum.twice, sum.left, sum.foundNone = sum.twice+t.twice, sum.left+t.left, sum.foundNone+t.foundNone
		sum.places, sum.overtaken = append(sum.places, t.places...), append(sum.overtaken, t.overtaken...)
		idle = append(idle, t.idle)
		longest = max(longest, measure.Percentile(t.Latencies, 100))
	}
	r.Add("claimed_twice", sum.twice)
	r.Add("left", sum.left)
	r.Add("found_none", sum.foundNone)
	r.AddSpread("idle_share", measure.SpreadOf(idle))
	r.Add("idle_max_ms", measure.Rounded(measure.Micros(longest)/1000))
	r.Add("places_off_p50", measure.Percentile(sum.places, 50))
	r.Add("places_off_max", measure.Percentile(sum.places, 100))
	r.Add("overtaken_p50", measure.Percentile(sum.overtaken, 50))
	r.Add("overtaken_max", measure.Percentile(sum.overtaken, 100))
	r.AddFaults()
}
