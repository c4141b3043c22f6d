package docs_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "write the excerpts in the pages anew, from the files that they name")

// excerpt is an excerpt in a page, of a program, a test or the output that a test compares. The
// comment before it names the file and the lines, by the beginning of each. "first … last"
// are all lines from one to the other. What follows an empty line has an indentation of
// its own.
//
//	<!-- examples/payment/main.go
//	return locks.Do( … }
//	receipt, err := charge(
//	-->
var excerpt = regexp.MustCompile("(?s)(<!-- ([\\w./-]+\\.\\w+)\n([^`]*?)-->\n```\\w*\n)(.*?)```\n")

// compared is the comment before a block that a test elsewhere compares.
//
//	<!-- internal/engine/rights_test.go compares this -->
var compared = regexp.MustCompile(`^<!-- ([\w./-]+_test\.go) compares this -->$`)

// blocks finds blocks that nothing compares with what is compiled or run.
func blocks(page, text string) (problems []string) {
	if test := generated[page]; test != "" {
		if !compares(test, page) {
			problems = append(problems, " "+test+" does not compare it")
		}
		return problems
	}
	for _, p := range parts(text) {
		if p.kind == "prose" && strings.Contains(p.text, "```") {
			problems = append(problems, p.problem("fences begin a line, without indentation"))
		}
		switch lang := strings.TrimPrefix(p.kind, "```"); {
		case lang == p.kind, lang == "sh", lang == "mermaid":
		case excerpt.MatchString(p.before + "\n```\n```\n"):
		case lang == "go":
			problems = append(problems, p.problem("no comment before the block says which file its lines come from"))
		default:
			if m := compared.FindStringSubmatch(p.before); m == nil {
				problems = append(problems, p.problem("no comment before the block names its file, or the test that compares it"))
			} else if !compares(m[1], page) {
				problems = append(problems, p.problem("%s does not compare it", m[1]))
			}
		}
	}
	return problems
}

// compares reports whether a test reads the page.
func compares(test, page string) bool {
	text, err := os.ReadFile("../" + test)
	return err == nil && strings.Contains(string(text), path.Base(page))
}

// Each job has a program, an excerpt of it that is short, and a link to it.
func TestJobsShowTheExamples(t *testing.T) {
	page := source(t, "docs/jobs.md")
	for _, job := range strings.Split(page, "\n## ")[1:] {
		title, _, _ := strings.Cut(job, "\n")
		const least, most = 3, 6
		lines, file := 0, ""
		for _, m := range excerpt.FindAllStringSubmatch(job, -1) {
			file = m[2]
			for line := range strings.Lines(m[4]) {
				if strings.ContainsFunc(line, unicode.IsLetter) {
					lines++
				}
			}
		}
		if lines < least || lines > most {
			t.Errorf("%s: %d lines, want %d to %d, without those of braces only", title, lines, least, most)
		}
		if !strings.Contains(job, "](../"+file+")") {
			t.Errorf("%s: no link to %s", title, file)
		}
		if !strings.Contains(job, "*Without the lock:* ") {
			t.Errorf("%s doesn't say what goes wrong without the lock", title)
		}
	}
}

// fresh is a page with the excerpts as the files are now.
func fresh(text string) (fresh string, problems []string) {
	fresh = excerpt.ReplaceAllStringFunc(text, func(old string) string {
		m := excerpt.FindStringSubmatch(old)
		file, err := os.ReadFile("../" + m[2])
		lines, missing := cut(string(file), m[3])
		if err := cmp.Or(err, missing); err != nil {
			problems = append(problems, fmt.Sprintf(" %s: %v", m[2], err))
		}
		return m[1] + lines + "```\n"
	})
	if fresh != text && problems == nil {
		problems = append(problems, " it shows other lines than the files have; go test ./docs -update writes them anew")
	}
	return fresh, problems
}

// cut returns lines of a file. A line with an ellipsis stands for those that
// were left out, and an empty one for the way to another place.
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
