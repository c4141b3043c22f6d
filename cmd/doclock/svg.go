package main

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/doclock/doclock/relations"
)

// matrixSVG draws what relations.Rules.Matrix draws. Orange is cooperative, blue
// assertive.
func matrixSVG(rules relations.Rules) string {
	const width, height, margin, font = 120, 36, 12, 14
	tags := rules.Tags()
	left := 0
	for _, tag := range tags {
		left = max(left, len(tag)*9+2*margin)
	}
	column := max(width, left)
	var b strings.Builder
	w, h := left+column*len(tags)+margin, height*(len(tags)+1)+margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" font-family="sans-serif" font-size="%d">`+"\n", w, h, font)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	text := func(x, y int, anchor, weight, s string) {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="%s" font-weight="%s">%s</text>`+"\n", x, y+height/2+font/3, anchor, weight, escaped(s))
	}
	for i, y := range tags {
		text(left+column*i+column/2, 0, "middle", "bold", y)
	}
	for i, x := range tags {
		top := height * (i + 1)
		text(margin, top, "start", "bold", x)
		for j, y := range tags {
			relation, fill, label := rules[x][y], "#f4f4f4", "–"
			switch relation.Kind.Arriving() {
			case relations.Refused:
				fill, label = "#fbd9b5", relation.String()
			case relations.Blocked:
				fill, label = "#bcd8f5", relation.String()
			}
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="white" stroke-width="2"/>`+"\n", left+column*j, top, column, height, fill)
			text(left+column*j+column/2, top, "middle", "normal", label)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder returns no error
	return b.String()
}
