// Package examples_test runs the examples, and compares them with the README
// and docs/jobs.md.
package examples_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

var program = regexp.MustCompile("(?s)<!-- (examples/[a-z]+)/main.go -->\n```go\n(.*?)```")

// The README shows the first two programs as they are, and links to the third.
// Both are short.
func TestReadmeShowsTheExamples(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := program.FindAllStringSubmatch(string(readme), -1)
	if len(found) != 2 {
		t.Errorf("%d programs in the README, want 2", len(found))
	}
	for _, match := range found {
		dir, shown := match[1], match[2]
		if shown != source(t, dir+"/main.go") {
			t.Errorf("the README shows another program than %s/main.go", dir)
		}
		if n := strings.Count(shown, "\n"); n > 50 {
			t.Errorf("%s: %d lines, want 50 at most", dir, n)
		}
	}
	for _, file := range []string{"examples/contact/main.go", "examples/contact/book.go", "examples/transfer/main.go", "examples/transfer/bank.go", "examples/leader/main.go"} {
		if !strings.Contains(string(readme), "("+file+")") {
			t.Errorf("the README has no link to %s", file)
		}
	}
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
