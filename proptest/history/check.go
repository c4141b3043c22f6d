package history

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/doclock/doclock/proptest/tally"
)

// check is one document's history, ready for checking.
type check struct {
	counter
	Document
	apart      int64 // of the history
	deletes    bool  // it was deleted: where the members' clocks differ, fences may go back by that
	clocks     map[int]clock
	commands   []*Command  // by send time
	operations []Operation // by process and number
	sightings  []sighting  // by the time when they were known
	arrivals   []*arrival  // by seq
	byToken    map[lease]*arrival
	byID       map[string][]*arrival
	byKey      map[string][]string // the ids that a token's entry has had
	violations []violation
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

func (s sighting) shows(a *arrival) bool {
	e, there := s.find(a.ID)
	return there && a.is(e)
}

// Check checks the history. The tally counts the checks of each property, and
// each violation.
func (h *History) Check(t *tally.Tally) {
	h.eachDocument(t, func(c *check) {
		c.safety()
		c.reasons()
		c.writes()
		c.outcomes()
	})
}

// CheckSafety is Check without what needs a server that can be reached: nobody is let in
// who is not, and all callers were told the truth.
func (h *History) CheckSafety(t *tally.Tally) {
	h.eachDocument(t, func(c *check) {
		c.safety()
		c.writes()
	})
}

func (h *History) eachDocument(t *tally.Tally, f func(*check)) {
	h.place()
	all := h.clocksOf()
	for _, d := range h.Documents {
		c := newCheck(h, d, all, t)
		f(c)
		c.report()
	}
}

func (c *check) safety() {
	c.exclusion()
	c.images()
	c.queue()
	c.validity()
	c.renewals()
	c.releases()
	c.order()
	c.verdicts()
}

// place finds the documents of the commands that name none, as a claim and a clean-up by
// the entry's id: those in which the id was seen. They are two if the network has repeated
// a claim: the command stands in both then. A claim that found nothing stands in none, and
// a take-over whose id nobody saw where the entries were seen that it names.
func (h *History) place() {
	documents := map[string][]string{}
	note := func(id, document string) {
		if id != "" && document != "" && !slices.Contains(documents[id], document) {
			documents[id] = append(documents[id], document)
		}
	}
	for _, c := range h.Commands {
		note(c.ID, c.Document)
		if c.Image != nil {
			for _, e := range c.Image.Entries {
				note(e.ID, c.Document)
			}
		}
	}
	for i, c := range h.Commands {
		if c.Document != "" || c.Kind == CommandAcquire && c.Answered != 0 && !c.Matched {
			continue
		}
		places := documents[c.ID]
		for i := 0; len(places) == 0 && i < len(c.Named); i++ {
			places = documents[c.Named[i].ID]
		}
		for n, document := range places {
			if c.Document = document; n == 0 {
				h.Commands[i] = c
			} else {
				h.Commands = append(h.Commands, c)
			}
		}
	}
}

func newCheck(h *History, d Document, clocks map[int]clock, t *tally.Tally) *check {
	c := &check{counter: t, Document: d, apart: h.Apart, clocks: clocks, byToken: map[lease]*arrival{}, byID: map[string][]*arrival{}, byKey: map[string][]string{}}
	for _, o := range h.Operations {
		if o.Document == d.ID {
			c.operations = append(c.operations, o)
		}
	}
	for i := range h.Commands {
		if command := &h.Commands[i]; command.Document == d.ID && command.Kind != commandNothing {
			c.commands = append(c.commands, command)
		}
	}
	c.deletes = slices.ContainsFunc(c.commands, func(of *Command) bool { return of.Kind == CommandDelete })
	slices.SortFunc(c.commands, func(a, b *Command) int { return cmp.Compare(c.sent(a), c.sent(b)) })
	for _, command := range c.commands {
		if command.Image == nil {
			continue
		}
		s := sighting{command.Image, command, c.sent(command), c.answered(command)}
		if s.Now == 0 || h.Apart != 0 && !command.changed() { // a stored image, as old as the first execution, or a deposed member's
			s.from = forever
		}
		c.sightings = append(c.sightings, s)
	}
	slices.SortFunc(c.sightings, func(a, b sighting) int { return cmp.Compare(a.to, b.to) })
	c.gather()
	return c
}

// changed says that the image is not older than the command: of a linearizable read, or
// with an entry that has just come.
func (c *Command) changed() bool {
	own, there := c.Image.find(c.ID)
	return c.Newest || c.Kind == CommandAcquire && there && own.Since == c.Image.Now
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

// The limits of time.
const (
	never   = math.MaxInt64
	forever = math.MinInt64
)

const millisecond = int64(time.Millisecond)

func (h *History) clocksOf() map[int]clock {
	if h.Apart == 0 {
		return clocks(h.Commands)
	}
	all := map[int]clock{}
	for _, c := range h.Commands {
		all[c.Process] = clock{-h.Apart, h.Apart, true}
	}
	return all
}

// clock maps a process's clock to the server's. Every image with a time says
// that the server read its clock between the command's send and its reply, so
// the difference of the clocks lies in an interval. All images together narrow
// the interval down.
type clock struct {
	lo, hi int64 // the server's clock is this much ahead, in nanoseconds
	known  bool
}

// clocks makes the map of each process. If no single difference agrees with all
// images, a clock was set in the meantime: then the map is as wide as all
// differences together.
func clocks(commands []Command) map[int]clock {
	all, widest := map[int]clock{}, map[int]clock{}
	for _, c := range commands {
		if c.Image == nil || c.Image.Now == 0 || c.Answered == 0 {
			continue
		}
		lo, hi := c.Image.Now*millisecond-c.Answered, (c.Image.Now+1)*millisecond-c.Sent
		k, known := all[c.Process]
		w := widest[c.Process]
		if !known {
			k, w = clock{lo, hi, true}, clock{lo, hi, true}
		}
		all[c.Process] = clock{max(k.lo, lo), min(k.hi, hi), true}
		widest[c.Process] = clock{min(w.lo, lo), max(w.hi, hi), true}
	}
	for p, k := range all {
		if k.lo > k.hi {
			all[p] = widest[p]
		}
	}
	return all
}

// earliest is the server's earliest time at an instant of the process.
func (k clock) earliest(t int64) int64 {
	if !k.known || t == forever {
		return forever
	}
	return t + k.lo
}

// latest is the server's latest time at that instant.
func (k clock) latest(t int64) int64 {
	if !k.known || t == never {
		return never
	}
	return t + k.hi
}
