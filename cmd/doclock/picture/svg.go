package main

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// svg is a terminal's lines as a picture. It knows the attributes that doclock
// uses.
func svg(lines []string) string {
	const cell, height, margin = 8.43, 18, 14
	width := columns
	for _, l := range lines {
		width = max(width, utf8.RuneCountInString(bare(l)))
	}
	var b strings.Builder
	w, h := int(float64(width)*cell)+2*margin, len(lines)*height+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d">`+"\n", w, h)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="#16181d"/>`+"\n")
	b.WriteString(`<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" fill="#d8dbe2" xml:space="preserve">` + "\n")
	for i, l := range lines {
		if l != "" {
			fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve">%s</text>`+"\n", margin, margin+(i+1)*height-5, spans(l))
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// spans is a line with its attributes as SVG's.
func spans(line string) string {
	attributes := map[string]string{
		"1": `font-weight="bold" fill="#ffffff"`, "2": `fill="#7c8291"`,
		"31": `fill="#ff7b72"`, "32": `fill="#7ee787"`, "33": `fill="#e3b341"`,
	}
	var b strings.Builder
	for i, part := range strings.Split(line, "\x1b[") {
		sequence := ""
		if i > 0 {
			sequence, part, _ = strings.Cut(part, "m")
		}
		if part == "" {
			continue
		}
		fmt.Fprintf(&b, "<tspan %s>%s</tspan>", attributes[sequence], html.EscapeString(part))
	}
	return b.String()
}

// bare is a line without its attributes.
func bare(line string) string {
	var b strings.Builder
	for i, part := range strings.Split(line, "\x1b[") {
		if i > 0 {
			_, part, _ = strings.Cut(part, "m")
		}
		b.WriteString(part)
	}
	return b.String()
}
