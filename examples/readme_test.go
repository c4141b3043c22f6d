// Package examples_test runs the examples, and compares them with the README
// and docs/jobs.md.
package examples_test

import (
	"os"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// The README shows lines of the first two programs, and links to the others.
func TestReadmeShowsTheExamples(t *testing.T) {
	readme := fresh(t, "README.md")
	if found := excerpt.FindAllString(readme, -1); len(found) != 2 {
		t.Errorf("%d programs in the README, want 2", len(found))
	}
	for _, file := range []string{"examples/contact/main.go", "examples/contact/book/book.go", "examples/transfer/main.go", "examples/transfer/bank.go", "examples/leader/main.go"} {
		if !strings.Contains(readme, "("+file+")") {
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
