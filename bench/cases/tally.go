package cases

import (
	"slices"
	"time"

	"github.com/doclock/doclock/bench/measure"
)

// tally is what a round's claims come to.
type tally struct {
	measure.Round
	twice, left int // documents that were claimed more than once, or never
	foundNone   int
	idle        float64 // share of the workers' time, while documents were free
	places      []int   // for each claim: documents of a higher priority that were claimed later
	overtaken   []int   // for each claim: documents of a lower priority that were claimed before
}

// count counts the claims of this many workers on this many documents. The
// final writes are not among the commands.
func (c claims) count(workers, documents int) tally {
	t := tally{foundNone: c.FoundNone}
	t.places, t.overtaken = c.order()
	t.Failed = c.Failed
	t.Commands = c.Commands - int64(len(c.All))
	byPriority := map[int]int{}
	var began, granted, ended int64
	for i, one := range c.All {
		t.Latencies = append(t.Latencies, time.Duration(one.Granted-one.Wished))
		if byPriority[one.Priority]++; byPriority[one.Priority] == 2 {
			t.twice++
		}
		if i == 0 {
			began = one.Wished
		}
		began, granted, ended = min(began, one.Wished), max(granted, one.Granted), max(ended, one.Finished)
	}
	for _, other := range c.Beside {
		byPriority[other.Priority]++
	}
	t.left = documents - len(byPriority)
	t.Took = time.Duration(ended - began)
	var idle time.Duration
	for _, d := range t.Latencies {
		idle += d
	}
	t.idle = measure.Over(idle.Seconds(), float64(workers)*time.Duration(granted-began).Seconds())
	return t
}

// order has, for each claim, the number of documents of higher priority that were
// claimed later, and of those of lower priority that were claimed before. Without a
// fencing token it compares when the workers got their answers. These overtake each
// other on their way, so it is not always 0 for claims in the exact order.
func (c claims) order() (places, overtaken []int) {
	everybody := slices.Concat(c.All, c.Beside)
	for _, one := range c.All {
		better, worse := 0, 0
		for _, other := range everybody {
			switch {
			case other.Priority > one.Priority && other.Order > one.Order:
				better++
			case other.Priority < one.Priority && other.Order < one.Order:
				worse++
			}
		}
		places, overtaken = append(places, better), append(overtaken, worse)
	}
	return places, overtaken
}
