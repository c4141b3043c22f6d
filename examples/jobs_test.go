package examples_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "write the excerpts of README and docs/jobs.md anew, from the programs")

// excerpt is an excerpt in a page. The comment before it names the file
// and the lines, by the beginning of each. "first … last" are all lines from one
// to the other. What follows an empty line has an indentation of its own.
//
//	<!-- examples/payment/main.go
//	return locks.Do( … }
//	receipt, err := charge(
//	-->
var excerpt = regexp.MustCompile("(?s)(<!-- (examples/[a-z/]+\\.[a-z]+)\n(.*?)-->\n)```go\n(.*?)```\n")

// Each job has a program, an excerpt of it that is short, and a link to it.
func TestJobsShowTheExamples(t *testing.T) {
	page := fresh(t, "docs/jobs.md")
	jobs := strings.Split(page, "\n## ")[1:]
	for _, job := range jobs {
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
	if !strings.Contains(source(t, "README.md"), "(docs/jobs.md)") {
		t.Error("the README has no link to docs/jobs.md")
	}
}

// fresh is a page with the excerpts as the programs are now.
func fresh(t *testing.T, path string) string {
	t.Helper()
	page := source(t, path)
	fresh := excerpt.ReplaceAllStringFunc(page, func(old string) string {
		m := excerpt.FindStringSubmatch(old)
		return m[1] + "```go\n" + cut(t, m[2], m[3]) + "```\n"
	})
	if fresh != page && *update {
		if err := os.WriteFile("../"+path, []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if fresh != page {
		t.Errorf("%s shows other lines than the programs have; go test ./examples -run Show -update writes them anew", path)
	}
	return fresh
}

// cut returns lines of a file. A line with an ellipsis stands for those that
// were left out, and an empty one for the way to another place.
func cut(t *testing.T, file, ranges string) string {
	t.Helper()
	lines := strings.SplitAfter(source(t, file), "\n")
	next := 0
	find := func(beginning string) int {
		for i := next; i < len(lines); i++ {
			if strings.HasPrefix(strings.TrimLeft(lines[i], "\t"), beginning) {
				next = i + 1
				return i
			}
		}
		t.Fatalf("%s has no line that begins with %q, or not in this order", file, beginning)
		return 0
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
		first := find(from)
		last := first
		if several {
			last = find(to)
		}
		if fresh {
			margin, fresh = indent(lines[first]), false
		} else if first > left {
			kept.WriteString(strings.TrimPrefix(indent(lines[first]), margin) + "// …\n")
		}
		for _, line := range lines[first : last+1] {
			kept.WriteString(strings.TrimPrefix(line, margin))
		}
	}
	return kept.String()
}

func indent(line string) string { return line[:len(line)-len(strings.TrimLeft(line, "\t"))] }
