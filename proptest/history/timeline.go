package history

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"github.com/doclock/doclock/proptest/tally"
)

// Timeline draws the document's history as an SVG, on the server's clock. Each entry has
// a row, with a bar: pale while it waits, dark while it certainly keeps others out, and
// dashed while nobody knows. Marks show refusals, losses, commands without an answer, and
// applied writes. A red line is at the instant of each violation.
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

// row is what is known of an entry.
type row struct {
	name  string
	spans []span
}

// span is a bar of a row, or a mark at an instant of it.
type span struct {
	class    string // of a bar
	mark     string // or ""
	from, to int64
	title    string
}

// The classes of bars.
const (
	barWaits   = "waits"
	barHeld    = "held"
	barUnknown = "unknown"
)

// marks are the characters of the marks, by what they say.
var marks = map[string]string{Conflict: "⊘", Lost: "✕", Unknown: "?", "applied": "●"}

// rows are those of the entries, in the order of their begin.
func (c *check) rows() (rows []*row) {
	byID := map[string]*row{}
	add := func(id, tag string, spans ...span) {
		if id == "" || len(spans) == 0 {
			return
		}
		if byID[id] == nil {
			byID[id] = &row{name: words(c.caller(id), name(tag, id, 0))}
			rows = append(rows, byID[id])
		}
		byID[id].spans = append(byID[id].spans, spans...)
	}
	for _, a := range c.arrivals {
		add(a.ID, a.Tag, c.bars(a)...)
	}
	mark := func(id, tag, outcome string, at int64, text string) {
		if marks[outcome] != "" {
			add(id, tag, span{"", marks[outcome], at, at, text})
		}
	}
	for i := range c.commands {
		command := &c.commands[i]
		if command.Answered == 0 {
			mark(command.ID, command.Tag, Unknown, c.sent(command), command.text())
		} else {
			mark(command.ID, command.Tag, c.outcome(command), c.answered(command), command.text())
		}
	}
	for _, o := range c.operations {
		if o.Return != 0 {
			mark(o.ID, o.Tag, o.Outcome, c.clocks[o.Process].latest(o.Return), o.text())
		}
	}
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(a.spans[0].from, b.spans[0].from) })
	return rows
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
	came, held := min(a.seen, end), min(a.held, end)
	add := func(class string, from, to int64) {
		if from != forever && (from < to || class == barHeld && a.Fence != 0) {
			title := words(name(a.Tag, a.ID, a.Fence), either(a.remainder, "left of a release", class), fmt.Sprintf("%.3f to %.3f s,", seconds(from-c.begin()), seconds(to-c.begin())), how)
			bars = append(bars, span{class, "", from, to, title})
		}
	}
	add(barUnknown, a.asked, came)
	add(barWaits, came, held)
	add(barHeld, max(held, came), end)
	add(barUnknown, end, later)
	return bars
}

// The sizes of a picture, in pixels. The bars begin at barsLeft.
const (
	rowHeight = 28
	top       = 60 // of the first row
	barsLeft  = 190
	barsWidth = 900
)

const style = `<style>
text { fill: #1f2328 } .page { fill: #fff; stroke: none } .soft { fill: #59636e } .grid { stroke: #d1d9e0 } .violation { stroke: #cf222e }
rect { fill: #0969da; stroke: #0969da } .waits { fill-opacity: .25 } .unknown { fill-opacity: .08; stroke-dasharray: 4 3 } .mark { font-weight: bold; text-anchor: middle }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .page { fill: #0d1117 } .soft { fill: #9198a1 } .grid { stroke: #3d444d } .violation { stroke: #ff7b72 } rect { fill: #1f6feb; stroke: #1f6feb } }
</style>
`

// timeline draws what happened between two instants. The limits of time stand for the
// first bar and the last.
func (c *check) timeline(from, to int64) string {
	rows, first, last := c.rows(), int64(never), int64(forever)
	for _, r := range rows {
		r.spans = slices.DeleteFunc(r.spans, func(s span) bool { return s.to < from || s.from > to })
		for _, s := range r.spans {
			for _, at := range []int64{s.from, s.to} {
				if at != never && at != forever {
					first, last = min(first, at), max(last, at)
				}
			}
		}
	}
	rows = slices.DeleteFunc(rows, func(r *row) bool { return len(r.spans) == 0 })
	begin := c.begin()
	if first > last { // no instant is known
		first, last = begin, begin
	}
	from, to = max(from, first), max(min(to, last), first)
	to = max(to, from+millisecond)
	x := func(at int64) float64 {
		return barsLeft + barsWidth*float64(min(max(at, from), to)-from)/float64(to-from)
	}

	var b strings.Builder
	bottom := top + rowHeight*len(rows)
	title := html.EscapeString(fmt.Sprintf("document %s (%s), in seconds from %d ms on the server's clock", c.ID, c.Name, begin/millisecond))
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img" aria-label="A time line: %s">`+"\n%s", barsLeft+barsWidth+40, bottom+30, title, style)
	fmt.Fprintf(&b, `<rect class="page" width="100%%" height="100%%"/><text x="10" y="20" font-weight="bold">%s</text>`+"\n", title)
	fmt.Fprintf(&b, `<text class="soft" x="10" y="40">pale: waits, dark: keeps others out, dashed: nobody knows, %s refused, %s lost, %s no answer, %s applied</text>`+"\n", marks[Conflict], marks[Lost], marks[Unknown], marks["applied"])
	step := math.Pow(10, math.Ceil(math.Log10(seconds(to-from)/10))) // of at most ten instants
	for i := math.Ceil(seconds(from-begin) / step); i*step <= seconds(to-begin); i++ {
		at := x(begin + int64(math.Round(i*step*1e9)))
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %dV%d"/><text class="soft" x="%.1[1]f" y="%[4]d" text-anchor="middle">%[5]g s</text>`+"\n", at, top, bottom, bottom+16, math.Round(i*step*1e6)/1e6)
	}
	for i, r := range rows {
		y := top + rowHeight*i
		fmt.Fprintf(&b, `<g class="row"><text x="10" y="%d">%s</text>`+"\n", y+18, html.EscapeString(r.name))
		for _, s := range r.spans {
			title := html.EscapeString(s.title)
			if s.mark != "" {
				fmt.Fprintf(&b, `<text class="mark" x="%.1f" y="%d">%s<title>%s</title></text>`+"\n", x(s.from), y+18, s.mark, title)
			} else {
				fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="20" rx="2"><title>%s</title></rect>`+"\n", s.class, x(s.from), y+4, max(2, x(s.to)-x(s.from)), title)
			}
		}
		b.WriteString("</g>\n")
	}
	for _, v := range c.violations {
		if v.at >= from && v.at <= to {
			text := html.EscapeString(fmt.Sprintf("violation at %.3f s: %s: %s", seconds(v.at-begin), v.property, v.text))
			fmt.Fprintf(&b, `<path class="violation" stroke-width="2" d="M%.1f %dV%d"><title>%s</title></path>`+"\n", x(v.at), top-4, bottom, text)
		}
	}
	return b.String() + "</svg>\n"
}
