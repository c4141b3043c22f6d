package history

import (
	"cmp"
	"slices"
)

// Properties of fences and seqs.
const (
	PropertyTokens   = "fences increase in the order of grants, and are never given twice"
	PropertyArrivals = "seq keeps the order of arrival"
	PropertyCounter  = "lock.fence never decreases"
)

// A document that is deleted and made anew begins without a fence. Within one
// millisecond of the server's clock it may give out the same fence again.
func (c *check) order() {
	deleted := slices.ContainsFunc(c.commands, func(of Command) bool { return of.Kind == CommandDelete })
	used := map[int64]*arrival{}
	for _, a := range c.arrivals {
		var numbers []int64 // an entry in the place of another has that one's seq, and a remainder has its fence too
		if a.new() {
			numbers = append(numbers, a.Seq)
		}
		if a.Fence != 0 && a.Fence != a.Seq && !a.remainder {
			numbers = append(numbers, a.Fence)
		}
		for _, n := range numbers {
			if other := used[n]; other != nil && !deleted {
				c.violated(a.seen, PropertyTokens, "%v and %v have the same fence", a, other)
			}
			used[n] = a
		}
	}
	came := slices.DeleteFunc(slices.Clone(c.arrivals), func(a *arrival) bool { return !a.new() })
	ordered(c, PropertyArrivals, came,
		func(a *arrival) (number, from, to int64) { return a.Seq, a.asked, a.seen })
	held := slices.DeleteFunc(slices.Clone(c.arrivals), func(a *arrival) bool { return a.Fence == 0 || a.remainder })
	ordered(c, PropertyTokens, held,
		func(a *arrival) (number, from, to int64) { return a.Fence, a.granted, a.held })
	shown := slices.DeleteFunc(slices.Clone(c.sightings), func(s sighting) bool { return deleted && s.Fence == 0 })
	ordered(c, PropertyCounter, shown,
		func(s sighting) (number, from, to int64) { return s.Fence, s.from, s.to })
}

// ordered checks that of two events that certainly happened one after the
// other, the later one has no smaller number.
func ordered[T any](c *check, property string, all []T, of func(T) (number, from, to int64)) {
	type event struct{ number, from, to int64 }
	var events []event
	for _, x := range all {
		number, from, to := of(x)
		events = append(events, event{number, from, to})
	}
	ended := slices.Clone(events)
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.from, b.from) })
	slices.SortFunc(ended, func(a, b event) int { return cmp.Compare(a.to, b.to) })
	highest, next := event{}, 0
	for _, e := range events {
		for ; next < len(ended) && ended[next].to < e.from; next++ {
			if ended[next].number > highest.number {
				highest = ended[next]
			}
		}
		c.Checked(property, 1)
		if e.number < highest.number {
			c.violated(e.from, property, "%d after %d was over, and it is less than %d", e.number, highest.to/millisecond, highest.number)
		}
	}
}
