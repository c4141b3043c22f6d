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
			if other := used[n]; other != nil && !c.deletes {
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
	shown := slices.DeleteFunc(slices.Clone(c.sightings), func(s sighting) bool { return c.deletes && s.Fence == 0 })
	ordered(c, PropertyCounter, shown,
		func(s sighting) (number, from, to int64) { return s.Fence, s.from, s.to })
}

// ordered checks that of two events that certainly happened one after the
// other, the later one has no smaller number. That of a document that is made anew
// comes from the clock of the member that is primary then.
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
	slack := int64(0)
	if c.deletes {
		slack = 2 * c.apart / millisecond
	}
	highest, next := event{}, 0
	for _, e := range events {
		for ; next < len(ended) && ended[next].to < e.from; next++ {
			if ended[next].number > highest.number {
				highest = ended[next]
			}
		}
		c.Checked(property, 1)
		if e.number < highest.number-slack {
			c.violated(e.from, property, "%d after %d was over, and it is less than %d", e.number, highest.to/millisecond, highest.number)
		}
	}
}

// PropertyFIFO is counted for every grant under a tag that respects another.
const PropertyFIFO = "first come, first served where the rules say so"

// queue checks overtaking. An entry that came earlier and was granted later was
// waiting in between. The number of such entries may not exceed the relation's
// allowance.
func (c *check) queue() {
	for _, x := range c.arrivals {
		if x.Fence == 0 || !x.new() || x.passes || len(c.Rules[x.Tag]) == 0 {
			continue
		}
		c.Checked(PropertyFIFO, 1)
		overtaken := map[string]int{}
		for _, y := range c.arrivals {
			if y.new() && y.Seq < x.Seq && c.later(y, x) {
				overtaken[y.Tag]++
			}
		}
		if by := c.over(x.Tag, overtaken); len(by) > 0 {
			c.violated(x.held, PropertyFIFO, "%v was granted before %d of %v that came before it", x, overtaken[by[0]], by)
		}
	}
}

// PropertyReason is about waits. exclusion and releases check that a waiter is not
// let in earlier, and package waitqueue's tests that it asks again in time.
const PropertyReason = "no request is refused or kept waiting without a blocking entry"

// reasons checks that the image of each refused or waiting request shows the reason.
func (c *check) reasons() {
	for _, command := range c.commands {
		asks := command.Kind == CommandAcquire || command.Kind == CommandConfirm
		if asks && command.Image != nil && command.Image.Now != 0 {
			c.reason(command)
		}
	}
}

// reason checks one image. A repeated acquire that finds its entry waiting is not
// decided again.
func (c *check) reason(command *Command) {
	live, _, own, there := c.inTheWay(command)
	if there && own.Fence != 0 || command.Kind == CommandConfirm && !there {
		return
	}
	if command.Kind == CommandAcquire && there && own.Since != command.Image.Now {
		return // a repeat
	}
	c.Checked(PropertyReason, 1)
	if len(c.over(command.Tag, live)) == 0 {
		c.violated(c.answered(command), PropertyReason, "at %d: %s of %s %.8s was not granted, though no entry blocks it", command.Image.Now, command.Kind, command.Tag, command.ID)
	}
}

// inTheWay counts, by tag, the live entries that count for this command, and those of
// them that are held.
func (c *check) inTheWay(command *Command) (live, held map[string]int, own Entry, there bool) {
	own, there = command.Image.find(command.ID)
	live, held = map[string]int{}, map[string]int{}
	for _, e := range command.Image.Entries {
		later := there && e.Fence == 0 && e.Seq > own.Seq
		if e.ID == command.ID || e.Expires <= command.Image.Now || later {
			continue
		}
		live[e.Tag]++
		if e.Fence != 0 {
			held[e.Tag]++
		}
	}
	return live, held, own, there
}

// Object is one document's lock as a concurrent object: its commands with the
// intervals in which they took effect, for a checker of linearizability.
type Object struct {
	Document Document
	Steps    []Step

	// Hidden: a command that joins or confirms was never answered. It may have
	// pruned expired entries, or taken a fence, without any image of it. A claim
	// that names no document may have joined any.
	Hidden bool
}

// Step is one command. Call and Return are on the server's clock, and include
// the clocks' uncertainty.
type Step struct {
	Command
	Call, Return int64 // nanoseconds

	// Maybe: the command was never answered, and was executed or not. It is
	// listed because it may explain an image: an entry that a join made or a
	// confirm granted, as in Possible, or an absent entry. Its Return is the
	// end of the time in which it can have had that effect.
	Maybe    bool
	Possible *Entry
}

// Linearizable lists the documents with the commands sent to them, except those
// with [Document.Terms]. It leaves out
// commands without an answer that explain nothing that was seen.
func (h *History) Linearizable() []Object {
	h.place()
	all := h.clocksOf()
	nowhere := slices.ContainsFunc(h.Commands, func(c Command) bool {
		return c.Kind == CommandAcquire && c.Document == "" && c.Answered == 0
	})
	var objects []Object
	for _, d := range h.Documents {
		if d.Terms {
			continue
		}
		c := newCheck(h, d, all, nil)
		o := Object{Document: d, Hidden: nowhere}
		accounted := map[*arrival]bool{} // made by an answered join
		for _, s := range c.sightings {
			for _, a := range c.byID[s.command.ID] {
				if s.command.Kind == CommandAcquire && s.Now != 0 && (s.Now == a.Since || s.command.Inherits) && s.Fence == a.Seq {
					accounted[a] = true
				}
			}
		}
		for _, command := range c.commands {
			s := Step{Command: *command, Call: c.sent(command), Return: c.answered(command)}
			if command.Answered != 0 && (command.Image == nil || command.Image.Now != 0) {
				o.Steps = append(o.Steps, s)
				continue
			}
			// There is no answer, or only a stored image of an earlier
			// execution.
			s.Maybe, s.Answered, s.Image, s.Matched = true, 0, nil, false
			joins := command.Kind == CommandAcquire || command.Kind == CommandConfirm
			o.Hidden = o.Hidden || joins
			for _, a := range c.byID[command.ID] {
				s := s
				e := a.Entry
				switch command.Kind {
				case CommandAcquire:
					if e.Fence != e.Seq {
						e.Fence = 0
					}
					s.Possible, s.Return = &e, a.seen
					if accounted[a] {
						continue
					}
				case CommandConfirm:
					s.Possible, s.Return = &e, a.held
					if a.Fence == 0 || a.Fence == a.Seq {
						continue
					}
				case CommandRelease, CommandWriteAndRelease:
					s.Return = a.absent
				default:
					continue
				}
				if s.Return >= s.Call {
					o.Steps = append(o.Steps, s)
				}
			}
		}
		objects = append(objects, o)
	}
	return objects
}
