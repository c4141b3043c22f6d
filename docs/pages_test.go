// Package docs_test checks the pages that users read: README.md, docs and the READMEs of
// the modules. A link leads somewhere, a Go block is compiled elsewhere, a command is one
// that CI runs, an output is one that a test makes.
package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// generated pages are made by a test, or by a program, and compared there.
var generated = map[string]string{
	"docs/cli.md":                "cmd/doclock/docs_test.go",
	"docs/performance-tables.md": "bench/report/report_test.go",
}

func TestPages(t *testing.T) {
	used := map[string]bool{}
	for _, page := range pages(t) {
		text := source(t, page)
		if *update {
			text, _ = fresh(text)
			must(t, os.WriteFile("../"+page, []byte(text), 0o644))
		}
		for _, problem := range problems(page, text) {
			t.Errorf("%s:%s", page, problem)
		}
		for _, p := range parts(text) {
			for _, command := range shown(p) {
				used[command] = true
			}
		}
	}
	for _, commands := range notRun {
		for _, command := range commands {
			if !used[command] {
				t.Errorf("no page shows %q: it needs no exception", command)
			}
		}
	}
}

func problems(page, text string) []string {
	_, stale := fresh(text)
	return slices.Concat(stale, links(page, text), blocks(page, text), commands(page, text), widths(page, text))
}

// pages are all of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	return git(t, "ls-files", "--cached", "--others", "--exclude-standard", "*.md")
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#{1,6} +(.*)`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	span    = regexp.MustCompile("(?s)`[^`]+`")
)

// links finds relative links to files or headings that do not exist.
func links(page, text string) (problems []string) {
	for _, p := range parts(text) {
		for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(p.prose(), ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], ":") { // of the web
				continue
			}
			other := text
			if target != "" {
				file, err := os.ReadFile(path.Join("..", path.Dir(page), target))
				if _, missing := os.Stat(path.Join("..", path.Dir(page), target)); missing != nil {
					problems = append(problems, p.problem("a link to %s, which does not exist", target))
					continue
				} else if err != nil { // a directory
					continue
				}
				other = string(file)
			}
			if anchor != "" && !slices.Contains(anchors(other), anchor) {
				problems = append(problems, p.problem("a link to %s, and no heading there is so", m[1]))
			}
		}
	}
	return problems
}

// anchors are the headings of a page as GitHub writes them in links.
func anchors(text string) (found []string) {
	times := map[string]int{}
	for _, p := range parts(text) {
		m := heading.FindStringSubmatch(p.text)
		if p.kind != "prose" || m == nil {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(linked.ReplaceAllString(m[1], "$1")))
		if n := times[anchor]; n > 0 {
			times[anchor]++
			anchor = fmt.Sprintf("%s-%d", anchor, n)
		}
		times[anchor]++
		found = append(found, anchor)
	}
	return found
}

// widths finds lines that are too long. A table can't be wrapped, nor what a test writes into a line.
func widths(page, text string) (problems []string) {
	if generated[page] != "" {
		return nil
	}
	const most = 120
	number := 0
	for line := range strings.Lines(text) {
		number++
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > most && !strings.HasPrefix(strings.TrimLeft(line, " "), "|") && !strings.Contains(line, "<!-- end -->") {
			problems = append(problems, fmt.Sprintf("%d: %d columns, %d are the most", number, n, most))
		}
	}
	return problems
}

// The pages that comments, errors and scripts name exist, too.
func TestPagesThatAreNamed(t *testing.T) {
	named := git(t, "grep", "-hoE", `\bdocs/[a-z-]+\.md\b`)
	slices.Sort(named)
	for _, page := range slices.Compact(named) {
		if _, err := os.Stat("../" + page); err != nil {
			t.Errorf("%s is named, and does not exist", page)
		}
	}
}

// git returns the words of its answer about the repository, which another user may own, as in a container.
func git(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-c", "safe.directory=*", "-C", ".."}, args...)...).Output()
	must(t, err)
	return strings.Fields(string(out))
}

// source is a file of the repository.
func source(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../" + path)
	must(t, err)
	return string(text)
}
