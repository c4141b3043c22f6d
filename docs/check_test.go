package docs_test

import (
	"strings"
	"testing"
)

const excerptOf = "<!-- docs/wire_test.go\nfunc must(\n-->\n```go\nfunc must(t *testing.T, err error) {\n```\n"

// Each page is as it should be until one word of it is changed.
func TestAChangedWordIsNoticed(t *testing.T) {
	for name, c := range map[string]struct{ page, word, other, want string }{
		"a link":                {"See [jobs](jobs.md).", "jobs.md", "job.md", "does not exist"},
		"a directory":           {"See [examples](../examples).", "../examples", "../example", "does not exist"},
		"a link over two lines": {"See [the\njobs](jobs.md).", "jobs.md", "job.md", "does not exist"},
		"a picture":             {"![it](img/lock.svg)", "lock.svg", "locks.svg", "does not exist"},
		"a heading":             {"# One, and `two`\n\n[one](#one-and-two)", "one-and-two", "one-two", "no heading"},
		"a second heading":      {"# One\n# One\n[one](#one-1)", "one-1", "one-2", "no heading"},
		"a heading elsewhere":   {"See [the queue](jobs.md#job-queue).", "job-queue", "jobs", "no heading"},

		"a line of Go":  {excerptOf, "err error", "mistake error", "other lines"},
		"its file":      {excerptOf, "wire_test", "wires_test", "no such file"},
		"its beginning": {excerptOf, "func must(\n", "func may(\n", "no line that begins"},
		"a line of Go, in a page that names no file": {excerptOf, "docs/wire_test.go", "wire", "which file its lines come from"},
		"an output":                    {strings.Replace(excerptOf, "```go", "```", 1), "err error", "mistake error", "other lines"},
		"a block that a test compares": {"<!-- docs/wire_test.go compares this -->\n```js\n{}\n```", "wire", "wires", "does not compare it"},
		"a block":                      {"<!-- docs/wire_test.go compares this -->\n```js\n{}\n```", "compares this", "", "no comment"},

		"fences in a list":     {"- It is\n\n```sh\ngo run ./demo\n```", "```", "  ```", "without indentation"},
		"a command in a block": {"```sh\ngo run ./demo # a race\n```", "demo", "demos", "no line of .ci/run"},
		"an indented command":  {"It is\n\n    go test ./locktest -v -run TestReads\n", "TestReads", "TestRead", "no line of .ci/run"},
		"a command in a line":  {"It is `go run\n./demo`.", "demo", "demos", "no line of .ci/run"},
		"a command in a table": {"| `DOCLOCK_TEST_MEMORY=1 go test .` |", "MEMORY", "MEMORIES", "no line of .ci/run"},
		"a step":               {"`.ci/run checks`", "checks", "check", "no line of .ci/run"},
		"a group of steps":     {"`.ci/run proof`", "proof", "proofs", "no line of .ci/run"},
		"what is indented":     {"It is\n\n    go run ./demo\n", "go run ./demo", "a race", "use fences"},

		"a wide line": {strings.Repeat("ä", 120), "ä", "ää", "columns"},
	} {
		t.Run(name, func(t *testing.T) {
			if found := problems("docs/rights.md", c.page); len(found) > 0 {
				t.Errorf("it has problems as it is: %q", found)
			}
			other := strings.Replace(c.page, c.word, c.other, 1)
			if found := strings.Join(problems("docs/rights.md", other), "\n"); !strings.Contains(found, c.want) {
				t.Errorf("with %q: %q, want %q", c.other, found, c.want)
			}
		})
	}
}
