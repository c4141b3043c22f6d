// Package examples_test runs what the README shows.
package examples_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

var program = regexp.MustCompile("(?s)<!-- (examples/[a-z]+)/main.go -->\n```go\n(.*?)```")

// The first programs in the README are those in the examples, of 30 lines at
// most, and they run.
func TestFirstPrograms(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := program.FindAllStringSubmatch(string(readme), -1)
	if len(found) != 2 {
		t.Fatalf("%d programs in the README, want 2", len(found))
	}
	want := map[string]string{
		"examples/writelock": "prints: 1 error: <nil>\n",
		"examples/multilock": "<nil>\n",
	}
	client := mongotest.Client(t)
	drop := func() {
		for _, name := range []string{"shop", "book"} {
			if err := client.Database(name).Drop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	drop()
	defer drop()
	if _, err := client.Database("book").Collection("categories").InsertOne(t.Context(), bson.M{"_id": "friends"}); err != nil {
		t.Fatal(err)
	}
	for _, match := range found {
		dir, shown := match[1], match[2]
		t.Run(dir, func(t *testing.T) {
			source, err := os.ReadFile("../" + dir + "/main.go")
			if err != nil {
				t.Fatal(err)
			}
			if string(source) != shown {
				t.Errorf("the README shows another program than %s/main.go", dir)
			}
			if n := strings.Count(shown, "\n"); n > 30 {
				t.Errorf("%d lines, want 30 at most", n)
			}
			cmd := exec.CommandContext(t.Context(), "go", "run", "./"+dir)
			cmd.Dir = ".."
			cmd.Env = append(os.Environ(), "MONGODB_URI="+mongotest.URI(t))
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != want[dir] {
				t.Errorf("%v: it prints %q, want %q", err, out, want[dir])
			}
		})
	}
}
