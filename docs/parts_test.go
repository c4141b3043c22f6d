package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
		switch fence := strings.HasPrefix(line, "```"); {
		case blank(line):
			found = append(found, part{kind: "blank"})
		case fence:
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
			end = until(i, func(line string) bool {
				return blank(line) || strings.HasPrefix(line, "```") || strings.HasPrefix(line, "<!--")
			})
			end = max(end, i+1)
			add(i, "prose", lines[i:end])
			list = item.MatchString(line) || list && strings.HasPrefix(line, " ")
		}
		i = end
	}
	return found
}

// files are those of the repository that may name a page.
func files(t *testing.T) (found []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		switch filepath.Ext(path) {
		case ".go", ".md", ".sh", ".yml", "":
			if err == nil && e.Type().IsRegular() && !strings.Contains(path, "/.git/") {
				found = append(found, strings.TrimPrefix(path, "../"))
			}
		}
		if e.IsDir() && e.Name() == "node_modules" {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// source is a file of the repository.
func source(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
