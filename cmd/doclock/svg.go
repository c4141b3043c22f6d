package main

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/doclock/doclock/relations"
)

const svgStyle = `<style>
.ground { fill: #fff } text { fill: #1f2328 } .soft { fill: #4f5963; font-size: 11px } .tag { font-weight: bold } .letin { fill: #f0f2f4 } .waits { fill: #bcdcf8 } .refused { fill: #fbd3a8 }
@media (prefers-color-scheme: dark) { .ground { fill: #0d1117 } text { fill: #e6edf3 } .soft { fill: #bcc4cd } .letin { fill: #1d242c } .waits { fill: #12497f } .refused { fill: #71390a } }
</style>
`

// matrixSVG draws what relations.Rules.Matrix draws, with the effects in words:
// what happens to the tag of the row, which arrives, while the tag of the column
// is there.
func matrixSVG(rules relations.Rules) string {
	const row, head, margin = 44, 60, 12
	tags, endless := rules.Tags(), map[[2]string]bool{}
	for _, s := range rules.Starvations() {
		endless[[2]string{s.Tag, s.Path[1]}] = true
	}
	left, column := wide("arrives"), max(wide("refused ∞"), wide("while this is there")/len(tags))
	for _, x := range tags {
		left, column = max(left, wide(x)), max(column, wide(x))
		for _, y := range tags {
			if rules[x][y].Allow > 0 {
				column = max(column, wide("refused from 9 on ∞"))
			}
		}
	}
	left += 2 * margin
	var b strings.Builder
	text := func(x, y int, class, anchor, s string) {
		fmt.Fprintf(&b, `<text class="%s" x="%d" y="%d" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, html.EscapeString(s))
	}
	text(left, 20, "soft", "start", "while this is there")
	text(margin, head-12, "soft", "start", "arrives")
	for i, x := range tags {
		top := head + row*i
		text(left+column*i+column/2, head-12, "tag", "middle", x)
		text(margin, top+27, "tag", "start", x)
		for j, y := range tags {
			relation := rules[x][y]
			class, effect := "letin", "let in"
			switch relation.Kind.Arriving() {
			case relations.Refused:
				class, effect = "refused", "refused"
			case relations.Blocked:
				class, effect = "waits", "waits"
			}
			fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="3"/>`+"\n", class, left+column*j+1, top+1, column-2, row-2)
			middle := left + column*j + column/2
			if relation.Kind == relations.None {
				text(middle, top+27, "", "middle", effect)
				continue
			}
			if relation.Allow > 0 {
				effect += fmt.Sprintf(" from %d on", relation.Allow+1)
			}
			if endless[[2]string{x, y}] {
				effect += " ∞"
			}
			text(middle, top+20, "", "middle", effect)
			text(middle, top+35, "soft", "middle", relation.String())
		}
	}
	width, height := left+column*len(tags)+margin, head+row*len(tags)+margin
	if len(endless) > 0 {
		text(width-margin, height+8, "soft", "end", "∞ can go on for ever")
		height += 20
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" font-family="sans-serif" font-size="14" role="img" aria-label="Rules between %s">`+"\n%s"+
		`<rect class="ground" width="100%%" height="100%%" rx="6"/>`+"\n%s</svg>\n", width, height, html.EscapeString(strings.Join(tags, ", ")), svgStyle, b.String())
}

// wide is more than the width of a text in any sans-serif font, with a margin.
func wide(text string) int { return 9*utf8.RuneCountInString(text) + 12 }
