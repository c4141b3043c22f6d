package docs_test

import (
	"fmt"
	"regexp"
	"strings"
)

// A part of a page: a paragraph, a heading or a table ("prose"), a comment, an indented
// block, or a block in fences, whose kind is its language.
type part struct {
	line   int // number of the first line
	kind   string
	text   string // without fences and indentation
	before string // the comment directly before a block
}

func (p part) problem(format string, a ...any) string {
	return fmt.Sprintf("%d: %s", p.line, fmt.Sprintf(format, a...))
}

func (p part) prose() string {
	if p.kind == "prose" {
		return p.text
	}
	return ""
}

var item = regexp.MustCompile(`^ *([-*]|\d+\.) `)

// parts reads as much of Markdown as the pages have. A block in a list is part of the list.
func parts(text string) (found []part) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	list := false
	add := func(i int, kind string, lines []string) {
		p := part{line: i + 1, kind: kind, text: strings.Join(lines, "\n")}
		if last := len(found) - 1; kind != "comment" && last >= 0 && found[last].kind == "comment" {
			p.before = found[last].text
		}
		found = append(found, p)
	}
	// until returns the first line from i on that ends what has begun before.
	until := func(i int, ends func(string) bool) int {
		for i < len(lines) && !ends(lines[i]) {
			i++
		}
		return i
	}
	blank := func(line string) bool { return line == "" }
	for i := 0; i < len(lines); {
		line := lines[i]
		end := i + 1
		switch {
		case blank(line):
			found = append(found, part{kind: "blank"})
		case strings.HasPrefix(line, "```"):
			end = until(i+1, func(line string) bool { return line == "```" })
			add(i, "```"+strings.TrimPrefix(line, "```"), lines[i+1:end])
			end++
		case strings.HasPrefix(line, "<!--") && !strings.Contains(line, "-->"):
			end = until(i, func(line string) bool { return strings.HasSuffix(line, "-->") }) + 1
			add(i, "comment", lines[i:end])
		case strings.HasPrefix(line, "<!--") && strings.HasSuffix(line, "-->"):
			add(i, "comment", lines[i:end])
		case strings.HasPrefix(line, "    ") && !list:
			end = until(i, blank)
			add(i, "indented", lines[i:end])
		case heading.MatchString(line):
			add(i, "prose", lines[i:end])
			list = false
		default:
			end = until(i+1, func(line string) bool {
				return blank(line) || strings.HasPrefix(line, "```") || strings.HasPrefix(line, "<!--")
			})
			add(i, "prose", lines[i:end])
			list = item.MatchString(line) || list && strings.HasPrefix(line, " ")
		}
		i = end
	}
	return found
}
