package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/doclock/doclock/proptest/tally"
)

// Timeline draws the document's history as an SVG, on the server's clock. Each entry has
// a row, with bars: thin while it is refused and asks again, faint while it waits, solid
// while it certainly keeps others out, and dashed while nobody knows. Leases that exclude
// each other and were held at the same time have a red frame. Marks show refusals, losses,
// commands without an answer, and applied writes. A red line is at the instant of each
// violation.
func (h *History) Timeline(document string) string {
	h.place()
	for _, d := range h.Documents {
		if d.ID == document {
			c := newCheck(h, d, h.clocksOf(), &tally.Tally{})
			c.safety()
			c.writes()
			return c.timeline(forever, never)
		}
	}
	return ""
}

// row is what is known of an entry, or of an acquire that got none.
type row struct {
	id, name string
	spans    []span
}

// span is a bar of a row, or a mark at an instant of it.
type span struct {
	class    string
	from, to int64
	title    string
}

// overlap is a time in which two entries were held that exclude each other.
type overlap struct {
	id, other string
	from, to  int64
}

// The classes of bars.
const (
	barAsks    = "asks"
	barWaits   = "waits"
	barHeld    = "held"
	barUnknown = "unsure"
)

// rows are in the order of their begin.
func (c *check) rows() (rows []*row) {
	byID := map[string]*row{}
	add := func(id, tag string, spans ...span) {
		if id == "" || len(spans) == 0 {
			return
		}
		if byID[id] == nil {
			byID[id] = &row{id: id, name: words(c.caller(id), name(tag, id, 0))}
			rows = append(rows, byID[id])
		}
		byID[id].spans = append(byID[id].spans, spans...)
	}
	refused := c.refused()
	for _, a := range c.arrivals {
		if s := refused[a.ID]; s.class != "" && s.to <= a.came() { // it was not there meanwhile
			a.asked = max(a.asked, s.to)
		}
		add(a.ID, a.Tag, c.bars(a)...)
	}
	for i := range c.commands {
		command := &c.commands[i]
		at, outcome, s := c.answered(command), command.outcome(), refused[command.ID]
		switch {
		case command.Answered == 0:
			at, outcome = c.sent(command), Unknown
		case outcome == Conflict && at != s.from: // one of its repeats
			continue
		case outcome == Conflict && s.from < s.to:
			add(command.ID, command.Tag, s)
		}
		if marks[outcome] != "" {
			add(command.ID, command.Tag, span{outcome, at, at, command.text()})
		}
	}
	for _, o := range c.operations {
		if o.Return != 0 && (o.Outcome == Lost || o.Outcome == Unknown) {
			at := c.clocks[o.Process].latest(o.Return)
			add(o.ID, o.Tag, span{o.Outcome, at, at, o.text()})
		}
	}
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(a.spans[0].from, b.spans[0].from) })
	return rows
}

// refused are, by id, the times in which an acquire is refused again and again.
func (c *check) refused() map[string]span {
	all := map[string]span{}
	for i := range c.commands {
		command := &c.commands[i]
		if command.Answered == 0 || command.outcome() != Conflict {
			continue
		}
		s, again := all[command.ID]
		if !again {
			s = span{barAsks, c.answered(command), 0, name(command.Tag, command.ID, 0) + " asks again"}
		}
		s.to = c.answered(command)
		all[command.ID] = s
	}
	return all
}

// caller is that of an entry: "p1.3", or "p1" if no call of it is recorded.
func (c *check) caller(id string) string {
	for _, o := range c.operations {
		if o.ID == id {
			return fmt.Sprintf("p%d.%d", o.Process, o.Client)
		}
	}
	for _, command := range c.commands {
		if command.ID == id && command.Kind != CommandRelease { // which may be an operator's
			return fmt.Sprintf("p%d", command.Process)
		}
	}
	return "?"
}

// came is the time from which the entry was certainly there.
func (a *arrival) came() int64 { return min(a.seen, a.end()) }

// bars are the parts of an entry's life.
func (c *check) bars(a *arrival) (bars []span) {
	end, later, how := a.end(), a.end(), "expires"
	if a.released <= end {
		i := slices.IndexFunc(c.commands, func(command Command) bool {
			release := command.Kind == CommandRelease || command.Kind == CommandWriteAndRelease
			ends := release && command.ID == a.ID || slices.Contains(c.ended(&command), a.ID) || command.Kind == CommandDelete
			return ends && c.sent(&command) == a.released && command.Answered != 0
		})
		if i < 0 {
			how, later = "perhaps released", min(a.expires, a.absent)
		} else {
			how = "ended by " + c.commands[i].Kind
		}
	}
	add := func(class string, from, to int64) {
		if from != forever && (from < to || class == barHeld && a.Fence != 0) {
			title := fmt.Sprintf("%s %s %.3f to %.3f s, %s", name(a.Tag, a.ID, a.Fence), either(a.remainder, "left of a release", class), seconds(from-c.begin()), seconds(to-c.begin()), how)
			bars = append(bars, span{class, from, to, title})
		}
	}
	held := min(a.held, end)
	add(barUnknown, a.asked, a.came())
	add(barWaits, a.came(), held)
	add(barHeld, max(held, a.came()), end)
	add(barUnknown, end, later)
	return bars
}

// overlaps are those of all leases.
func (c *check) overlaps() (all []overlap) {
	for _, a := range c.arrivals {
		excluded, _ := c.excludes(a)
		if a.Fence == 0 || !a.new() {
			continue
		}
		for _, other := range excluded {
			all = append(all, overlap{a.ID, other.ID, a.held, max(a.held, min(a.end(), other.end()))})
		}
	}
	return all
}
