package history

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The sizes of a time line, in pixels. The bars begin at barsLeft.
const (
	rowHeight  = 28
	barHeight  = 20
	lineHeight = 17
	top        = 60 // of the first row
	barsLeft   = 190
	barsWidth  = 900
)

// mostWrong is how many violations a time line shows.
const mostWrong = 5

// marks are the characters of the marks, by what they say.
var marks = map[string]string{Conflict: "⊘", Lost: "✕", Unknown: "?", "applied": "●"}

const style = `<style>
text { fill: #1f2328 } .page { fill: #fff; stroke: none } .soft { fill: #59636e } .grid { stroke: #d1d9e0 } .line { stroke: #cf222e; stroke-width: 2 } .frame { fill: none; stroke: #cf222e; stroke-width: 3 }
rect { fill: #0969da; stroke: #0969da } .waits { fill-opacity: .25 } .asks { fill-opacity: .25; stroke-opacity: .4 } .unsure { fill-opacity: .08; stroke-dasharray: 4 3 } .mark { font-weight: bold; text-anchor: middle }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .page { fill: #0d1117 } .soft { fill: #9198a1 } .grid { stroke: #3d444d } .line, .frame { stroke: #ff7b72 } rect { fill: #1f6feb; stroke: #1f6feb } }
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

	violations := slices.DeleteFunc(slices.Clone(c.violations), func(v violation) bool { return v.at < from || v.at > to })
	violations = violations[:min(len(violations), mostWrong)]

	var b strings.Builder
	bottom := top + rowHeight*len(rows)
	height := bottom + 40 + 2*lineHeight*len(violations)
	title := html.EscapeString(fmt.Sprintf("document %s (%s), in seconds from %d ms on the server's clock", c.ID, c.Name, begin/millisecond))
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img" aria-label="A time line: %s">`+"\n%s", barsLeft+barsWidth+40, height, title, style)
	fmt.Fprintf(&b, `<rect class="page" width="100%%" height="100%%"/><text x="10" y="20" font-weight="bold">%s</text>`+"\n", title)
	fmt.Fprintf(&b, `<text class="soft" x="10" y="40">thin: asks again, faint: waits, solid: keeps others out, dashed: nobody knows, framed: exclude each other, %s refused, %s lost, %s no answer, %s applied</text>`+"\n", marks[Conflict], marks[Lost], marks[Unknown], marks["applied"])
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
			height := either(s.class == barAsks, 4, barHeight)
			if mark := marks[s.class]; mark != "" {
				fmt.Fprintf(&b, `<text class="mark" x="%.1f" y="%d">%s<title>%s</title></text>`+"\n", x(s.from), y+18, mark, title)
			} else {
				fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="2"><title>%s</title></rect>`+"\n", s.class, x(s.from), y+(rowHeight-height)/2, max(2, x(s.to)-x(s.from)), height, title)
			}
		}
		b.WriteString("</g>\n")
	}
	for _, o := range c.overlaps() {
		for i, r := range rows {
			if (r.id == o.id || r.id == o.other) && o.to >= from && o.from <= to {
				fmt.Fprintf(&b, `<rect class="frame" x="%.1f" y="%d" width="%.1f" height="%d"><title>two that exclude each other, %.3f to %.3f s</title></rect>`+"\n", x(o.from), top+rowHeight*i+(rowHeight-barHeight)/2, max(3, x(o.to)-x(o.from)), barHeight, seconds(o.from-begin), seconds(o.to-begin))
			}
		}
	}
	for i, v := range violations {
		fmt.Fprintf(&b, `<path class="line" d="M%.1f %dV%d"><title>violation at %.3f s</title></path>`+"\n", x(v.at), top-4, bottom, seconds(v.at-begin))
		for j, text := range []string{fmt.Sprintf("%.3f s: %s:", seconds(v.at-begin), v.property), v.text} {
			fmt.Fprintf(&b, `<text x="10" y="%d">%s</text>`+"\n", bottom+45+lineHeight*(2*i+j), html.EscapeString(text))
		}
	}
	return b.String() + "</svg>\n"
}
