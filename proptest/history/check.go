package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock/proptest/tally"
)

// Bound is the extra time that expiry liveness allows a waiter after its pause:
// a busy machine needs it to wake the waiter.
const Bound = 2 * time.Second

// check is one document's history, ready for checking.
type check struct {
	counter
	Document
	clocks     map[int]clock
	commands   []Command   // by send time
	operations []Operation // by process and number
	sightings  []sighting  // by the time when they were known
	arrivals   []*arrival  // by seq
	byToken    map[lease]*arrival
}

// counter is the part of a tally that checks need.
type counter interface {
	Checked(property string, n int)
	Violated(property, format string, args ...any)
	Seen(outcome string, n int)
}

// lease names one grant: ids can come back, fences can't.
type lease struct {
	id    string
	fence int64
}

// sighting is an image, and the interval in which it was true, on the server's
// clock in nanoseconds.
type sighting struct {
	*Image
	command  *Command
	from, to int64
}

// shows reports whether the entry is present.
func (s sighting) shows(a *arrival) bool {
	e, there := s.find(a.ID)
	return there && e.Seq == a.Seq
}

// arrival is an entry that was seen, with the certain facts of its life. Times
// are nanoseconds on the server's clock.
type arrival struct {
	Entry          // as last seen; Fence as soon as it is known
	asked    int64 // it did not arrive earlier than this
	seen     int64 // it had arrived by then
	granted  int64 // it was not granted earlier than this
	held     int64 // it was granted by then
	expires  int64 // others could be let in from then on; the latest expiry that was seen
	released int64 // it was not released earlier than this; never without a release
	absent   int64 // it was absent by then; never if that wasn't seen
}

func (a *arrival) String() string {
	return fmt.Sprintf("%s %.8s (seq %d, fence %d)", a.Tag, a.ID, a.Seq, a.Fence)
}

// end is the time until which the entry certainly excluded others.
func (a *arrival) end() int64 { return min(a.expires, a.released) }

// Properties are all properties that Check checks.
var Properties = []string{
	PropertyExclusion, PropertyImage, PropertyBarrier, PropertyNumbers, PropertyFIFO,
	PropertyValidity, PropertyValidAlone, PropertyRenewal, PropertyOver, PropertyRelease,
	PropertyTokens, PropertyArrivals, PropertyCounter, PropertyReason, PropertyPoll, PropertyPause,
	PropertyOnce, PropertyGuarded, PropertyGrant, PropertyVerdict,
}

// Check checks the history. The tally counts the checks of each property, and
// each violation.
func (h *History) Check(t *tally.Tally) {
	h.place()
	all := clocks(h.Commands)
	for _, d := range h.Documents {
		c := newCheck(h, d, all, t)
		c.exclusion()
		c.images()
		c.queue()
		c.validity()
		c.renewals()
		c.releases()
		c.order()
		c.liveness()
		c.pauses()
		c.writes()
		c.verdicts()
		c.outcomes()
	}
}

// place finds the documents of the commands that name none, as a clean-up by
// the entry's id may: an id belongs to one document.
func (h *History) place() {
	documents := map[string]string{}
	for _, c := range h.Commands {
		if c.Document != "" && c.ID != "" {
			documents[c.ID] = c.Document
		}
	}
	for i, c := range h.Commands {
		if c.Document == "" {
			h.Commands[i].Document = documents[c.ID]
		}
	}
}

func newCheck(h *History, d Document, clocks map[int]clock, t *tally.Tally) *check {
	c := &check{counter: t, Document: d, clocks: clocks, byToken: map[lease]*arrival{}}
	for _, o := range h.Operations {
		if o.Document == d.ID {
			c.operations = append(c.operations, o)
		}
	}
	for _, command := range h.Commands {
		if command.Document == d.ID && command.Kind != commandNothing {
			c.commands = append(c.commands, command)
		}
	}
	slices.SortFunc(c.commands, func(a, b Command) int { return cmp.Compare(c.sent(&a), c.sent(&b)) })
	for i := range c.commands {
		command := &c.commands[i]
		if command.Image == nil {
			continue
		}
		s := sighting{command.Image, command, c.sent(command), c.answered(command)}
		if s.Now == 0 { // a stored image, as old as the first execution
			s.from = forever
		}
		c.sightings = append(c.sightings, s)
	}
	slices.SortFunc(c.sightings, func(a, b sighting) int { return cmp.Compare(a.to, b.to) })
	c.gather()
	return c
}

// sent is the earliest time of the command's execution.
func (c *check) sent(command *Command) int64 {
	return c.clocks[command.Process].earliest(command.Sent)
}

// answered is the latest time of its execution.
func (c *check) answered(command *Command) int64 {
	if command.Answered == 0 {
		return never
	}
	return c.clocks[command.Process].latest(command.Answered)
}

// gather makes the arrivals from the images.
func (c *check) gather() {
	type arrived struct {
		id  string
		seq int64
	}
	found := map[arrived]*arrival{}
	byID := map[string][]*arrival{}
	note := func(e Entry, from, to int64) {
		a := found[arrived{e.ID, e.Seq}]
		if a == nil {
			a = &arrival{Entry: e, asked: never, seen: never, granted: forever, held: never, released: never, absent: never}
			found[arrived{e.ID, e.Seq}] = a
			byID[e.ID] = append(byID[e.ID], a)
			c.arrivals = append(c.arrivals, a)
		}
		a.seen = min(a.seen, to)
		a.expires = max(a.expires, e.Expires*millisecond)
		if e.Fence == 0 {
			a.granted = max(a.granted, from)
			return
		}
		a.Fence, a.held = e.Fence, min(a.held, to)
		c.byToken[lease{e.ID, e.Fence}] = a
	}
	for _, s := range c.sightings {
		for _, e := range s.Entries {
			note(e, s.from, s.to)
		}
	}
	for i := range c.commands { // a release's image has the removed entry
		if command := &c.commands[i]; command.Own != nil && command.Answered != 0 {
			note(*command.Own, c.sent(command), c.answered(command))
		}
	}
	for i := range c.commands {
		command := &c.commands[i]
		for _, a := range byID[command.ID] {
			switch command.Kind {
			case CommandAcquire:
				a.asked = min(a.asked, c.sent(command))
			case CommandRelease, CommandWriteAndRelease:
				if command.Fence == 0 || command.Fence == a.Fence {
					a.released = min(a.released, c.sent(command))
				}
			}
		}
	}
	for _, a := range c.arrivals {
		if a.asked == never {
			a.asked = forever
		}
		a.granted = max(a.granted, a.asked)
		for _, s := range c.sightings {
			if s.from > a.seen && s.to < a.absent && !s.shows(a) {
				a.absent = s.to
				break
			}
		}
	}
	slices.SortFunc(c.arrivals, func(a, b *arrival) int { return cmp.Compare(a.Seq, b.Seq) })
}

// over lists the tags with more entries than the tag's relations allow.
func (c *check) over(tag string, entries map[string]int) (by []string) {
	for other, n := range entries {
		r, respects := c.Rules[tag][other]
		if _, known := c.Rules[other]; !known {
			r, respects = Relation{}, true
		}
		if respects && n > r.Allow {
			by = append(by, other)
		}
	}
	slices.Sort(by)
	return by
}
