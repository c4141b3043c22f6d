package report

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"unicode/utf8"
)

// The colours of a chart of one series, and of one of several.
const ours, theirs = "#1f5f9f", "#b0b8c0"

var shades = []string{"#9ec5e8", "#4a8fc9", "#1f5f9f", "#0c2f55"}

// Names and figures are set in a monospaced font, in which every letter is 0.6
// of the size wide: so their widths are known, whatever font the reader has. The
// title and the axis are estimated by the same width, which is generous.
const (
	size, small, large = 13, 11, 16 // of the fonts
	margin, gap        = 20, 10
	span               = 480 // of the longest bar
)

func width(text string, size float64) float64 {
	return 0.6 * size * float64(utf8.RuneCountInString(text))
}

// svg draws the groups, from top to bottom. The picture has a white ground, so
// that it can be read on a dark page too.
func (c chart) svg(groups []group) []byte {
	var names, figures, legend, most float64
	for _, g := range groups {
		names = max(names, width(g.name, size))
		for _, b := range g.bars {
			figures, most = max(figures, width(b.text, small)), max(most, b.value)
		}
	}
	if len(c.series) > 1 {
		for _, s := range c.series {
			legend = max(legend, gap+size+6+width(s.name, small))
		}
	}
	left := margin + names + gap
	right := left + span + 4 + figures + gap
	thick := 16.0
	if len(c.series) > 1 {
		thick = 12
	}
	var w bytes.Buffer
	y := 72.0
	for _, g := range groups {
		height := thick * float64(len(g.bars))
		class := map[bool]string{true: "name own", false: "name"}[g.own]
		fmt.Fprintf(&w, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, left-gap, y+height/2+4, html.EscapeString(g.name))
		for _, b := range g.bars {
			long := 0.0
			if most > 0 {
				long = span * b.value / most
			}
			fmt.Fprintf(&w, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", left, y, long, thick-1, c.fill(g, b))
			fmt.Fprintf(&w, "<text class=\"figure\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", left+long+4, y+thick/2+3.5, html.EscapeString(b.text))
			y += thick
		}
		y += gap
	}
	fmt.Fprintf(&w, "<path d=\"M%.1f 68V%.1f\" stroke=\"#333\"/>\n", left-0.5, y-gap+4)
	if legend > 0 {
		for i, s := range c.series {
			top := 72 + 20*float64(i)
			fmt.Fprintf(&w, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", right+gap, top, size, size, shades[i])
			fmt.Fprintf(&w, "<text class=\"figure\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", right+gap+size+6, top+10.5, html.EscapeString(s.name))
		}
	}
	wide := slices.Max([]float64{right + legend, margin + width(c.title, large), margin + width(c.axis, size)}) + margin
	high := max(y-gap, 72+20*float64(len(c.series))) + margin
	var page bytes.Buffer
	fmt.Fprintf(&page, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d">
<style>
text { font: %[3]dpx sans-serif; fill: #222 }
.title { font-size: %[4]dpx; font-weight: bold }
.name { font-family: monospace; text-anchor: end }
.own { font-weight: bold }
.figure { font: %[5]dpx monospace }
</style>
<rect width="100%%" height="100%%" rx="6" fill="#fff"/>
<text class="title" x="%[6]d" y="30">%[7]s</text>
<text x="%[6]d" y="52">%[8]s</text>
%[9]s</svg>
`, int(wide), int(high), size, large, small, margin, html.EscapeString(c.title), html.EscapeString(c.axis), w.Bytes())
	return page.Bytes()
}

func (c chart) fill(g group, b bar) string {
	switch {
	case len(c.series) > 1:
		return shades[b.series]
	case g.own:
		return ours
	default:
		return theirs
	}
}
