package main

import (
	"cmp"
	"slices"
	"time"
)

// tally is what a round's claims come to.
type tally struct {
	round
	twice, left int // documents that were claimed more than once, or never
	foundNone   int
	idle        float64 // share of the workers' time, while documents were free
	overtaken   []int   // for each claim, see overtaken
}

// count counts the claims of this many workers on this many documents. The
// final writes are not among the commands.
func (c claims) count(workers, documents int) tally {
	t := tally{foundNone: c.FoundNone, overtaken: overtaken(c.All)}
	t.failed = c.Failed
	t.commands = c.Commands - int64(len(c.All))
	byPriority := map[int]int{}
	var began, granted, ended int64
	for i, one := range c.All {
		t.latencies = append(t.latencies, time.Duration(one.Granted-one.Wished))
		if byPriority[one.Priority]++; byPriority[one.Priority] == 2 {
			t.twice++
		}
		if i == 0 {
			began = one.Wished
		}
		began, granted, ended = min(began, one.Wished), max(granted, one.Granted), max(ended, one.Finished)
	}
	t.left = documents - len(byPriority)
	t.took = time.Duration(ended - began)
	var idle time.Duration
	for _, d := range t.latencies {
		idle += d
	}
	t.idle = over(idle.Seconds(), float64(workers)*time.Duration(granted-began).Seconds())
	return t
}

// overtaken has, for each claim, the number of documents of higher priority that
// were claimed later. Answers overtake each other on their way to the workers,
// so it is not always 0 for claims in the exact order.
func overtaken(all []claim) (counts []int) {
	inTime := slices.SortedFunc(slices.Values(all), func(a, b claim) int { return cmp.Compare(a.Granted, b.Granted) })
	for i, one := range inTime {
		n := 0
		for _, later := range inTime[i+1:] {
			if later.Priority > one.Priority {
				n++
			}
		}
		counts = append(counts, n)
	}
	return counts
}

// addTallies adds what the rounds came to: sums, medians, and the highest.
func (r *result) addTallies(all []tally) {
	var sum tally
	var idle []float64
	var longest time.Duration
	for _, t := range all {
		sum.twice, sum.left, sum.foundNone = sum.twice+t.twice, sum.left+t.left, sum.foundNone+t.foundNone
		sum.overtaken = append(sum.overtaken, t.overtaken...)
		idle = append(idle, t.idle)
		longest = max(longest, percentile(t.latencies, 100))
	}
	r.add("claimed_twice", sum.twice)
	r.add("left", sum.left)
	r.add("found_none", sum.foundNone)
	s := spreadOf(idle)
	r.add("idle_share", rounded(s.mid))
	r.add("idle_share"+ofRounds, both(s))
	r.add("idle_max_ms", rounded(micros(longest)/1000))
	r.add("out_of_order_p50", percentile(sum.overtaken, 50))
	r.add("out_of_order_max", percentile(sum.overtaken, 100))
	if r.lost > 0 {
		r.add("LOST_WRITES", r.lost)
	}
	if failed := r.failed(); failed > 0 {
		r.add("FAILED", failed)
	}
}
