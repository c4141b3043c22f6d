package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/doclock/doclock/proptest/tally"
)

// Timeline draws the document's history as an SVG, on the server's clock. Each caller
// has a row, with a bar for each entry: pale while it waits, dark while it certainly
// keeps others out, and dashed while nobody knows. Leases that exclude each other and
// were held at the same time have a red frame. Marks show refusals, losses, commands
// without an answer, and applied writes. A red line is at the instant of each violation.
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

// timeline draws what happened between two instants.
func (c *check) timeline(from, to int64) string {
	begin := c.begin()
	rows := c.rows()
	for _, r := range rows {
		r.spans = slices.DeleteFunc(r.spans, func(s span) bool { return s.to < from || s.from > to })
	}
	rows = slices.DeleteFunc(rows, func(r *row) bool { return len(r.spans) == 0 })
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(a.spans[0].from, b.spans[0].from) })
	p := picture{title: fmt.Sprintf("document %s (%s), in seconds from %d ms on the server's clock", c.ID, c.Name, begin/millisecond), from: from, to: to, begin: begin, rows: rows}
	for _, a := range c.arrivals {
		if !slices.Contains(p.tags, a.Tag) {
			p.tags = append(p.tags, a.Tag)
		}
		if excluded, _ := c.excludes(a); a.Fence != 0 && a.new() {
			for _, other := range excluded {
				p.overlaps = append(p.overlaps, overlap{a.ID, other.ID, a.held, max(a.held, min(a.end(), other.end()))})
			}
		}
	}
	slices.Sort(p.tags)
	for _, v := range c.violations {
		if v.at >= from && v.at <= to {
			p.violations = append(p.violations, v)
		}
	}
	return p.svg()
}

// row is what one caller did. Its bars don't overlap.
type row struct {
	caller string
	spans  []span
	end    int64 // of the last bar
}

// span is a part of a row, or a mark at an instant of it.
type span struct {
	class    string
	from, to int64
	title    string
	id, tag  string // of the entry
}

// overlap is a time in which two entries were held that exclude each other.
type overlap struct {
	id, other string
	from, to  int64
}

// The classes of bars, and of marks.
const (
	barAsks    = "asks"
	barWaits   = "waits"
	barHeld    = "held"
	barUnknown = "unknown"

	markRefused  = "refused"
	markLost     = "lost"
	markNoAnswer = "unanswered"
	markApplied  = "applied"
)

// rows are the callers' rows.
func (c *check) rows() (rows []*row) {
	caller, refused := c.callers(), c.refused()
	var lives [][]span
	for _, a := range c.arrivals {
		lives = append(lives, c.bars(a, refused[a.ID]))
	}
	for id, s := range refused {
		if len(c.byID[id]) == 0 && s.from < s.to {
			lives = append(lives, []span{s})
		}
	}
	lives = slices.DeleteFunc(lives, func(bars []span) bool { return len(bars) == 0 })
	slices.SortFunc(lives, func(a, b []span) int { return cmp.Or(cmp.Compare(a[0].from, b[0].from), cmp.Compare(a[0].id, b[0].id)) })
	for _, bars := range lives {
		by := cmp.Or(caller[bars[0].id], "?")
		i := slices.IndexFunc(rows, func(r *row) bool { return r.caller == by && r.end <= bars[0].from })
		if i < 0 {
			i = len(rows)
			rows = append(rows, &row{caller: by})
		}
		rows[i].spans, rows[i].end = append(rows[i].spans, bars...), bars[len(bars)-1].to
	}
	mark := func(class, by, id string, at int64, title string) {
		i := slices.IndexFunc(rows, func(r *row) bool {
			return id != "" && slices.ContainsFunc(r.spans, func(s span) bool { return s.id == id })
		})
		if i < 0 {
			i = slices.IndexFunc(rows, func(r *row) bool { return r.caller == by })
		}
		if i < 0 {
			i = len(rows)
			rows = append(rows, &row{caller: by})
		}
		rows[i].spans = append(rows[i].spans, span{class: class, from: at, to: at, title: title})
	}
	for i := range c.commands {
		command := &c.commands[i]
		by := cmp.Or(caller[command.ID], fmt.Sprintf("p%d", command.Process))
		switch {
		case command.Answered == 0:
			mark(markNoAnswer, by, command.ID, c.sent(command), command.text())
		case c.answered(command) == refused[command.ID].from: // and not each of its repeats
			mark(markRefused, by, command.ID, c.answered(command), command.text())
		case c.outcome(command) == "applied":
			mark(markApplied, by, command.ID, c.answered(command), command.text())
		}
	}
	for _, o := range c.operations {
		class := map[string]string{Lost: markLost, Unknown: markNoAnswer}[o.Outcome]
		if class != "" && o.Return != 0 {
			mark(class, fmt.Sprintf("p%d.%d", o.Process, o.Client), o.ID, c.clocks[o.Process].latest(o.Return), o.text())
		}
	}
	return rows
}

// refused are, by id, the times in which an acquire is refused again and again.
func (c *check) refused() map[string]span {
	all := map[string]span{}
	for i := range c.commands {
		command := &c.commands[i]
		if command.Answered == 0 || c.outcome(command) != Conflict {
			continue
		}
		s, again := all[command.ID]
		if !again {
			s = span{barAsks, c.answered(command), 0, name(command.Tag, command.ID, 0) + " asks again", command.ID, command.Tag}
		}
		s.to = c.answered(command)
		all[command.ID] = s
	}
	return all
}

// callers are the callers of entries: "p1.3", or "p1" if no call of it is recorded.
func (c *check) callers() map[string]string {
	of := map[string]string{}
	for _, o := range c.operations {
		of[o.ID] = cmp.Or(of[o.ID], fmt.Sprintf("p%d.%d", o.Process, o.Client))
	}
	for _, command := range c.commands {
		if command.Kind != CommandRelease { // which may be an operator's
			of[command.ID] = cmp.Or(of[command.ID], fmt.Sprintf("p%d", command.Process))
		}
	}
	for _, a := range c.arrivals { // a remainder is in the row of what it is left of
		for _, b := range c.arrivals {
			if b.Seq == a.Seq && of[a.ID] == "" {
				of[a.ID] = of[b.ID]
			}
		}
	}
	return of
}

// came is the time from which the entry was certainly there.
func (a *arrival) came() int64 { return min(a.seen, a.end()) }

// bars are the parts of an entry's life.
func (c *check) bars(a *arrival, refused span) (bars []span) {
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
			bars = append(bars, span{class, from, to, "", a.ID, a.Tag})
		}
	}
	held := min(a.held, end)
	if refused.id != "" && refused.to <= a.came() {
		add(barAsks, refused.from, refused.to)
		a.asked = max(a.asked, refused.to)
	}
	add(barUnknown, a.asked, a.came())
	add(barWaits, a.came(), held)
	add(barHeld, max(held, a.came()), end)
	add(barUnknown, end, later)
	for i, b := range bars {
		bars[i].title = fmt.Sprintf("%s %s %.3f to %.3f s, %s", name(a.Tag, a.ID, a.Fence), either(a.remainder, "left of a release", b.class), seconds(b.from-c.begin()), seconds(b.to-c.begin()), how)
	}
	return bars
}
