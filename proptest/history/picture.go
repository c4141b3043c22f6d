package history

import (
	"fmt"
	"html"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// picture is a time line from an instant to another. The limits of time stand for its
// first bar and its last.
type picture struct {
	title      string
	from, to   int64
	begin      int64 // of the transcript
	rows       []*row
	overlaps   []overlap
	violations []violation
	tags       []string

	left, width float64 // of the bars
	text        strings.Builder
}

// The sizes, in pixels.
const (
	rowHeight  = 28
	barHeight  = 20
	lineHeight = 17
	top        = 86 // of the first row
	charWidth  = 7  // at most
)

const style = `<style>
text { fill: #1f2328 } .page { fill: #fff } .soft { fill: #59636e } .grid { stroke: #d1d9e0 } .in { fill: #fff; font-weight: bold } .wrong { fill: #cf222e }
.tag0 { fill: #0969da; stroke: #0969da } .tag1 { fill: #1a7f37; stroke: #1a7f37 } .tag2 { fill: #8250df; stroke: #8250df } .tag3 { fill: #9a6700; stroke: #9a6700 } .tag4 { fill: #59636e; stroke: #59636e }
.mark { fill: #fff; stroke: #1f2328; stroke-width: 1.5 } .line { stroke: #cf222e } .frame { fill: none; stroke: #cf222e; stroke-width: 3 } .band { fill: #cf222e; fill-opacity: .15 }
.waits { fill-opacity: .25 } .asks { fill-opacity: .25; stroke-opacity: .4 } .unknown { fill-opacity: .08; stroke-dasharray: 4 3 } .lost { stroke: #cf222e; stroke-width: 3 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .page { fill: #0d1117 } .soft { fill: #9198a1 } .grid { stroke: #3d444d } .in { fill: #fff } .wrong { fill: #ff7b72 }
.tag0 { fill: #1f6feb; stroke: #1f6feb } .tag1 { fill: #238636; stroke: #238636 } .tag2 { fill: #8957e5; stroke: #8957e5 } .tag3 { fill: #9e6a03; stroke: #9e6a03 } .tag4 { fill: #656c76; stroke: #656c76 }
.mark { fill: #0d1117; stroke: #e6edf3 } .line, .frame, .lost { stroke: #ff7b72 } .band { fill: #ff7b72 } .waits, .asks { fill-opacity: .4 } }
</style>
`

// marks are the shapes of the marks, around their place.
var marks = map[string]string{
	markRefused:  `<circle class="mark" r="6"/><path class="mark" d="M-4 4L4 -4"/>`,
	markLost:     `<path class="lost" d="M-6 -6L6 6M-6 6L6 -6"/>`,
	markNoAnswer: `<circle class="mark" r="7"/><text y="4" text-anchor="middle" font-weight="bold">?</text>`,
	markApplied:  `<circle class="mark" r="4"/>`,
}

func (p *picture) printf(format string, args ...any) { fmt.Fprintf(&p.text, format, args...) }

func (p *picture) svg() string {
	p.scale()
	p.legend()
	bottom := float64(top + rowHeight*len(p.rows))
	p.axis(bottom)
	places := map[string]float64{} // of the entries
	for i, r := range p.rows {
		p.row(r, middle(i))
		for _, s := range r.spans {
			places[s.id] = middle(i)
		}
	}
	for _, o := range p.overlaps {
		if o.to >= p.from && o.from <= p.to && places[o.id] != 0 && places[o.other] != 0 {
			p.overlap(o, places[o.id], places[o.other])
		}
	}
	lines := p.wrong(bottom)
	width, height := p.left+p.width+30, bottom+30+float64(lineHeight*lines)
	title := html.EscapeString(p.title)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0[1]f" height="%.0[2]f" font-family="sans-serif" font-size="12" role="img" aria-label="A time line: %[3]s">`+"\n"+style+
		`<rect class="page" width="%.0[1]f" height="%.0[2]f"/>`+"\n"+`<text x="10" y="20" font-weight="bold">%[3]s</text>`+"\n", width, height, title) + p.text.String() + "</svg>\n"
}

// mostWrong is how many violations a picture shows.
const mostWrong = 5

// wrong draws the first violations, and says what they are.
func (p *picture) wrong(bottom float64) (lines int) {
	numbers := map[float64]string{} // by place, so that they don't cover each other
	for i, v := range p.violations[:min(len(p.violations), mostWrong)] {
		for _, line := range p.broken(fmt.Sprintf("%d: %s: %s", i+1, v.property, v.text)) {
			lines++
			p.printf(`<text class="wrong" x="10" y="%.0f">%s</text>`+"\n", bottom+24+float64(lineHeight*lines), html.EscapeString(line))
		}
		p.printf(`<path class="line" d="M%.1f %dV%.0f"><title>violation %d at %.3f s</title></path>`+"\n", p.x(v.at), top-4, bottom, i+1, seconds(v.at-p.begin))
		at := 20 * math.Round(p.x(v.at)/20)
		numbers[at] = words(numbers[at], fmt.Sprint(i+1))
	}
	for _, at := range slices.Sorted(maps.Keys(numbers)) {
		p.printf(`<text class="wrong" x="%.0f" y="%d" text-anchor="middle" font-weight="bold">%s</text>`+"\n", at, top-8, numbers[at])
	}
	return lines
}

// broken is the text in lines that have room.
func (p *picture) broken(text string) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if charWidth*float64(len(line)+len(word)) > p.left+p.width {
			lines, line = append(lines, line), ""
		}
		line = words(line, word)
	}
	return append(lines, line)
}

// scale finds the times, and the room for the names and for the bars.
func (p *picture) scale() {
	first, last, most := int64(never), int64(forever), 0
	for _, r := range p.rows {
		p.left = max(p.left, float64(20+charWidth*len(r.caller)))
		most = max(most, len(r.spans))
		for _, s := range r.spans {
			for _, at := range []int64{s.from, s.to} {
				if at != never && at != forever {
					first, last = min(first, at), max(last, at)
				}
			}
		}
	}
	if first > last { // no instant is known
		first, last = p.begin, p.begin
	}
	p.from, p.to = max(p.from, first), max(min(p.to, last), first)
	p.to = max(p.to, p.from+millisecond)
	p.width = max(900, float64(40*most))
}

// x is the place of an instant.
func (p *picture) x(at int64) float64 {
	at = min(max(at, p.from), p.to)
	return p.left + p.width*float64(at-p.from)/float64(p.to-p.from)
}

// middle is the middle of a row.
func middle(row int) float64 { return float64(top + rowHeight*row + rowHeight/2) }

// legend shows a bar of each tag and of each class, and each mark.
func (p *picture) legend() {
	x := 10.0
	entry := func(shape, text string) {
		p.printf(`<g transform="translate(%.0f 42)">%s<text class="soft" x="24" y="4">%s</text></g>`+"\n", x, shape, html.EscapeString(text))
		x += float64(40 + charWidth*len(text))
	}
	bar := func(class string) string { return `<rect class="` + class + `" y="-6" width="18" height="12" rx="2"/>` }
	for _, tag := range p.tags {
		entry(bar(p.colour(tag)), tag)
	}
	entry(bar("tag4 "+barWaits), "waits")
	entry(`<rect class="tag4 asks" y="-2" width="18" height="4"/>`, "asks again")
	entry(bar("tag4 "+barUnknown), "nobody knows")
	entry(bar("frame"), "exclude each other")
	for _, m := range []string{markRefused, markLost, markNoAnswer, markApplied} {
		entry(`<g transform="translate(9 0)">`+marks[m]+`</g>`, m)
	}
	p.width = max(p.width, x-p.left)
}

func (p *picture) colour(tag string) string {
	return fmt.Sprintf("tag%d", max(0, slices.Index(p.tags, tag))%5)
}

// axis has at most some ten instants, in seconds, as a transcript has them.
func (p *picture) axis(bottom float64) {
	step := millisecond / 10
	for tens := step; (p.to-p.from)/step > 10; tens *= 10 {
		for _, more := range []int64{1, 2, 5} {
			if (p.to-p.from)/step > 10 {
				step = tens * more
			}
		}
	}
	first := p.begin + (p.from-p.begin+step-1)/step*step
	for at := first; at <= p.to; at += step {
		p.printf(`<path class="grid" d="M%.1f %dV%.0f"/><text class="soft" x="%.1[1]f" y="%.0[4]f" text-anchor="middle">%[5]s s</text>`+"\n",
			p.x(at), top, bottom, bottom+16, strconv.FormatFloat(seconds(at-p.begin), 'f', -1, 64))
	}
}

// row draws a caller's bars, and then the marks.
func (p *picture) row(r *row, y float64) {
	p.printf(`<g class="row"><text x="10" y="%.0f">%s</text>`+"\n", y+4, html.EscapeString(r.caller))
	for _, s := range r.spans {
		x, width, title := p.x(s.from), max(2, p.x(s.to)-p.x(s.from)), html.EscapeString(s.title)
		if shape := marks[s.class]; shape != "" {
			p.printf(`<g class="%s" transform="translate(%.1f %.0f)"><title>%s</title>%s</g>`+"\n", s.class, x, y, title, shape)
			continue
		}
		height := float64(barHeight)
		if s.class == barAsks {
			height = 4
		}
		p.printf(`<rect class="%s %s" x="%.1f" y="%.0f" width="%.1f" height="%.0f" rx="2"><title>%s</title></rect>`+"\n", p.colour(s.tag), s.class, x, y-height/2, width, height, title)
		if s.class == barHeld && float64(10+charWidth*len(s.tag)) < width {
			p.printf(`<text class="in" x="%.1f" y="%.0f">%s</text>`+"\n", x+5, y+4, html.EscapeString(s.tag))
		}
	}
	p.printf("</g>\n")
}

// overlap frames the parts of two bars, and connects them.
func (p *picture) overlap(o overlap, one, other float64) {
	x, width := p.x(o.from), max(3, p.x(o.to)-p.x(o.from))
	for _, y := range []float64{one, other} {
		p.printf(`<rect class="frame" x="%.1f" y="%.0f" width="%.1f" height="%d"><title>two that exclude each other, %.3f to %.3f s</title></rect>`, x, y-barHeight/2, width, barHeight, seconds(o.from-p.begin), seconds(o.to-p.begin))
	}
	p.printf(`<rect class="band" x="%.1f" y="%.0f" width="%.1f" height="%.0f"/>`+"\n", x, min(one, other)+barHeight/2, width, math.Abs(one-other)-barHeight)
}
