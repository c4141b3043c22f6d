// Package docs_test checks the pages that users read: README.md, docs and the READMEs of the modules. A link leads
// somewhere, a Go block is compiled elsewhere, an output is one that a test makes, a command names what there is.
package docs_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "write the excerpts in the pages anew, from the files that they name")

var (
	// fence is a block in fences, with the comment directly before it.
	fence = regexp.MustCompile("(?ms)(?:^<!--((?:[^-]|-[^-])*)-->\n)?^```(\\w*)\n(.*?)^```$")

	// excerpt is an excerpt in a page, of a program, a test or the output that a test compares. The comment before it
	// names the file and the lines, by the beginning of each. "first … last" are all lines from one to the other. What
	// follows an empty line has an indentation of its own.
	//
	//	<!-- examples/jobqueue/main.go
	//	return locks.Do( … }
	//	receipt, err := charge(
	//	-->
	excerpt = regexp.MustCompile("(?s)(<!-- ([\\w./-]+\\.\\w+)\n([^`]*?)-->\n```\\w*\n)(.*?)```\n")

	// compared is the comment before a block that a test elsewhere compares.
	//
	//	<!-- docs/monglock_test.go compares this -->
	compared = regexp.MustCompile(`^ ([\w./-]+_test\.go) compares this $`)

	hidden  = regexp.MustCompile("(?s)`[^`]+`|<!--.*?-->")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.*)$`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

func TestPages(t *testing.T) {
	for _, page := range pages(t) {
		text := source(t, page)
		if *update {
			text, _ = fresh(text)
			must(t, os.WriteFile("../"+page, []byte(text), 0o644))
		}
		for _, problem := range problems(page, text) {
			t.Errorf("%s: %s", page, problem)
		}
	}
}

func problems(page, text string) []string {
	_, stale := fresh(text)
	return slices.Concat(stale, blocks(page, text), links(page, text), commands(text))
}

// pages are all of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	return git(t, "ls-files", "--cached", "--others", "--exclude-standard", "*.md")
}

// blocks finds blocks that nothing compares with what is compiled or run.
func blocks(page, text string) (problems []string) {
	if strings.Contains(fence.ReplaceAllString(text, ""), "```") {
		problems = append(problems, "fences begin a line, without indentation")
	}
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		first, _, _ := strings.Cut(m[3], "\n")
		test := compared.FindStringSubmatch(m[1])
		switch {
		case m[2] == "sh", m[2] == "mermaid", excerpt.MatchString(m[0] + "\n"):
		case m[2] == "go":
			problems = append(problems, first+": no comment before the block says which file its lines come from")
		case test == nil:
			problems = append(problems, first+": no comment before the block names its file, or the test that compares it")
		case !compares(test[1], page):
			problems = append(problems, first+": "+test[1]+" does not compare it")
		}
	}
	return problems
}

// compares reports whether a test reads the page.
func compares(test, page string) bool {
	text, err := os.ReadFile("../" + test)
	return err == nil && strings.Contains(string(text), path.Base(page))
}

// fresh is a page with the excerpts as the files are now.
func fresh(text string) (fresh string, problems []string) {
	fresh = excerpt.ReplaceAllStringFunc(text, func(old string) string {
		m := excerpt.FindStringSubmatch(old)
		file, err := os.ReadFile("../" + m[2])
		lines, missing := cut(string(file), m[3])
		if err := cmp.Or(err, missing); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", m[2], err))
		}
		return m[1] + lines + "```\n"
	})
	if fresh != text && problems == nil {
		problems = append(problems, "it shows other lines than the files have; go test ./docs -update writes them anew")
	}
	return fresh, problems
}

// cut returns lines of a file. A line with an ellipsis stands for those that were left out, and an empty one for the
// way to another place.
func cut(file, ranges string) (string, error) {
	lines := strings.SplitAfter(file, "\n")
	next := 0
	find := func(beginning string) bool {
		for i := next; i < len(lines); i++ {
			if strings.HasPrefix(strings.TrimLeft(lines[i], "\t"), beginning) {
				next = i + 1
				return true
			}
		}
		return false
	}
	var kept strings.Builder
	margin, fresh := "", true
	for text := range strings.Lines(ranges) {
		if text == "\n" {
			kept.WriteString("\n")
			fresh = true
			continue
		}
		from, to, several := strings.Cut(strings.TrimSuffix(text, "\n"), " … ")
		left := next
		if !find(from) {
			return "", fmt.Errorf("has no line that begins with %q, or not in this order", from)
		}
		first := next - 1
		if several && !find(to) {
			return "", fmt.Errorf("has no line that begins with %q after %q", to, from)
		}
		if fresh {
			margin, fresh = indent(lines[first]), false
		} else if first > left {
			kept.WriteString(strings.TrimPrefix(indent(lines[first]), margin) + "// …\n")
		}
		for _, line := range lines[first:next] {
			kept.WriteString(strings.TrimPrefix(line, margin))
		}
	}
	return kept.String(), nil
}

func indent(line string) string { return line[:len(line)-len(strings.TrimLeft(line, "\t"))] }

// links finds relative links to files or headings that do not exist.
func links(page, text string) (problems []string) {
	prose := hidden.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
	for _, m := range link.FindAllStringSubmatch(prose, -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(m[1], ":") { // of the web
			continue
		}
		other := text
		if target != "" {
			place := path.Join("..", path.Dir(page), target)
			if _, err := os.Stat(place); err != nil {
				problems = append(problems, "a link to "+target+", which does not exist")
				continue
			}
			file, _ := os.ReadFile(place) // nothing of a directory
			other = string(file)
		}
		if anchor != "" && !slices.Contains(anchors(other), anchor) {
			problems = append(problems, "a link to "+m[1]+", and no heading there is so")
		}
	}
	return problems
}

// anchors are the headings of a page as GitHub writes them in links.
func anchors(text string) (found []string) {
	times := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(linked.ReplaceAllString(m[1], "$1")))
		times[anchor]++
		if n := times[anchor]; n > 1 {
			anchor = fmt.Sprintf("%s-%d", anchor, n-1)
		}
		found = append(found, anchor)
	}
	return found
}

// Each page is as it should be until one word of it is changed.
func TestAChangedWordIsNoticed(t *testing.T) {
	const excerpt = "<!-- docs/pages_test.go\nfunc must(\n-->\n```go\nfunc must(t *testing.T, err error) {\n```\n"
	const block = "<!-- docs/wire_test.go compares this -->\n```js\n{}\n```"
	for _, c := range []struct{ page, word, other, want string }{
		{"See [the\njobs](jobs.md).", "jobs.md", "job.md", "does not exist"},
		{"See [examples](../examples).", "../examples", "../example", "does not exist"},
		{"# One, and `two`\n\n[one](#one-and-two)", "one-and-two", "one-two", "no heading"},
		{"# One\n# One\n[one](#one-1)", "one-1", "one-2", "no heading"},
		{"See [the queue](jobs.md#job-queue).", "job-queue", "jobs", "no heading"},
		{excerpt, "err error", "mistake error", "other lines"},
		{excerpt, "pages_test", "page_test", "no such file"},
		{excerpt, "func must(\n", "func may(\n", "no line that begins"},
		{excerpt, "docs/pages_test.go", "pages", "which file its lines come from"},
		{block, "wire", "wires", "does not compare it"},
		{block, "compares this", "", "no comment"},
		{"- It is\n\n```sh\ngo run ./demo\n```", "```", "  ```", "without indentation"},
		{"```sh\ngo run ./demo # a race\n```", "demo", "demos", "no package"},
		{"It is\n\n    go test ./locktest -v -run TestReads\n", "TestReads", "TestReading", "no test"},
		{"It is `go run -C bench\n. -case claim`.", "-case", "-cases", "no flag"},
		{"It is `.ci/run checks`.", "checks", "check", "no step"},
		{"It is `doclock ls`.", "doclock", "docklock", "no program"},
		{"```sh\ndoclock ls -c shop.orders\n```", "doclock", "dolock", "no program"},
		{"It is `go run\n./demo`.", "go run", "og run", "no program"},
		{"It is `go test ./locktest`.", "test", "tset", "no program"},
	} {
		if found := problems("docs/production.md", c.page); len(found) > 0 {
			t.Errorf("%s: it has problems as it is: %q", c.page, found)
		}
		other := strings.Replace(c.page, c.word, c.other, 1)
		if found := strings.Join(problems("docs/production.md", other), "\n"); !strings.Contains(found, c.want) {
			t.Errorf("%s: %q, want %q", other, found, c.want)
		}
	}
}

// The pages that comments, errors and scripts name exist, too.
func TestPagesThatAreNamed(t *testing.T) {
	for _, page := range git(t, "grep", "-hoE", `\bdocs/[a-z-]+\.md\b`) {
		if _, err := os.Stat("../" + page); err != nil {
			t.Errorf("%s is named, and does not exist", page)
		}
	}
}

// git returns the words of its answer about the repository, which another user may own, as in a container.
func git(t *testing.T, args ...string) []string {
	t.Helper()
	args = append([]string{"-c", "safe.directory=*", "-C", ".."}, args...)
	out, err := exec.CommandContext(t.Context(), "git", args...).Output()
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
