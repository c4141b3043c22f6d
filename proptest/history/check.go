package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock/proptest/tally"
)

// Bound is what expiry liveness allows a waiter beyond its pause: the time
// that a busy machine takes to wake it.
const Bound = 2 * time.Second

// check is one document's history, ready to be judged.
type check struct {
	counter
	Document
	clocks     map[int]clock
	commands   []Command   // by when they were sent
	operations []Operation // by process and number
	sightings  []sighting  // by when they were known
	arrivals   []*arrival  // by seq
	byToken    map[lease]*arrival
}

// counter is the part of a tally that checks need.
type counter interface {
	Checked(property string, n int)
	Violated(property, format string, args ...any)
	Seen(outcome string, n int)
}

// lease names one grant: ids can come back, tokens can't.
type lease struct {
	id    string
	token int64
}

// sighting is an image, and the interval in which it was true, on the server's
// clock in nanoseconds.
type sighting struct {
	*Image
	command  *Command
	from, to int64
}

// shows says whether the entry is there.
func (s sighting) shows(a *arrival) bool {
	e, there := s.find(a.ID)
	return there && e.Seq == a.Seq
}

// arrival is an entry that was seen, with what is certain of its life. Times
// are nanoseconds on the server's clock.
type arrival struct {
	Entry         // as seen last; Fence as soon as it is known
	asked   int64 // not before this did it arrive
	seen    int64 // by then it had arrived
	granted int64 // not before this was it granted
	held    int64 // by then it was granted
	expires int64 // others could be let in from then on; the latest that was seen
	givenUp int64 // not before this was it released; never without a release
	gone    int64 // by then it was not there any more; never if that wasn't seen
}

func (a *arrival) String() string {
	return fmt.Sprintf("%s %.8s (seq %d, token %d)", a.Tag, a.ID, a.Seq, a.Fence)
}

// end is until when the entry certainly excluded others.
func (a *arrival) end() int64 { return min(a.expires, a.givenUp) }

// Properties are all that Check checks.
var Properties = []string{
	PropertyExclusion, PropertyImage, PropertyBarrier, PropertyNumbers, PropertyFIFO,
	PropertyBelief, PropertyBelieveAlone, PropertyRenewal, PropertyOver, PropertyRelease,
	PropertyTokens, PropertyArrivals, PropertyCounter, PropertyReason, PropertyPoll, PropertyPause,
	PropertyOnce, PropertyGuarded, PropertyGrant, PropertyVerdict,
}

// Check judges the history. Each property is counted in the tally as often as
// it was checked, with each of its violations.
func (h *History) Check(t *tally.Tally) {
	h.place()
	all := clocks(h.Commands)
	for _, d := range h.Documents {
		c := newCheck(h, d, all, t)
		c.exclusion()
		c.images()
		c.queue()
		c.belief()
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

// sent is the earliest at which the command was executed.
func (c *check) sent(command *Command) int64 {
	return c.clocks[command.Process].earliest(command.Sent)
}

// answered is the latest at which it was.
func (c *check) answered(command *Command) int64 {
	if command.Answered == 0 {
		return never
	}
	return c.clocks[command.Process].latest(command.Answered)
}

// gather makes the arrivals out of the images.
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
			a = &arrival{Entry: e, asked: never, seen: never, granted: forever, held: never, givenUp: never, gone: never}
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
	for i := range c.commands { // a release shows what it removed
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
				if command.Token == 0 || command.Token == a.Fence {
					a.givenUp = min(a.givenUp, c.sent(command))
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
			if s.from > a.seen && s.to < a.gone && !s.shows(a) {
				a.gone = s.to
				break
			}
		}
	}
	slices.SortFunc(c.arrivals, func(a, b *arrival) int { return cmp.Compare(a.Seq, b.Seq) })
}

// over says which tags have more entries than the tag's relations allow.
func (c *check) over(tag string, entries map[string]int) (by []string) {
	for other, n := range entries {
		r, respects := c.Table[tag][other]
		if _, known := c.Table[other]; !known {
			r, respects = Relation{}, true
		}
		if respects && n > r.Allow {
			by = append(by, other)
		}
	}
	slices.Sort(by)
	return by
}
