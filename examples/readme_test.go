// Package examples_test runs what the README shows.
package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

var program = regexp.MustCompile("(?s)<!-- (examples/[a-z]+)/main.go -->\n```go\n(.*?)```")

// The first programs in the README are those in the examples, short, and say
// what is wrong where there is no server, as they stand in an empty module.
func TestFirstPrograms(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := program.FindAllStringSubmatch(string(readme), -1)
	if len(found) != 2 {
		t.Fatalf("%d programs in the README, want 2", len(found))
	}
	client := mongotest.Client(t)
	drop := func() {
		for _, name := range []string{"shop", "book"} {
			if err := client.Database(name).Drop(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	drop()
	t.Cleanup(drop)
	const unreachable = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1000"
	right := map[string]string{"examples/writelock": "prints: 1\n", "examples/multilock": "ada is a friend\n"}
	for _, match := range found {
		dir, shown := match[1], match[2]
		source, err := os.ReadFile("../" + dir + "/main.go")
		if err != nil {
			t.Fatal(err)
		}
		if string(source) != shown {
			t.Errorf("the README shows another program than %s/main.go", dir)
		}
		if n := strings.Count(shown, "\n"); n > 50 {
			t.Errorf("%s: %d lines, want 50 at most", dir, n)
		}
		binary := inAnEmptyModule(t, shown)
		for name, c := range map[string]struct {
			uri   string
			fails bool
			says  []string
		}{
			"missing":     {"", true, []string{"set MONGODB_URI"}},
			"malformed":   {"localhost:27017", true, []string{"parsing uri", "scheme"}},
			"unreachable": {unreachable, true, []string{"server selection error", "127.0.0.1:1", "connection refused"}},
			"right":       {mongotest.URI(t), false, []string{right[dir]}},
		} {
			t.Run(dir+"/"+name, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), binary)
				cmd.Env = append(os.Environ(), "MONGODB_URI="+c.uri)
				out, err := cmd.CombinedOutput()
				t.Logf("%s", out)
				if (err != nil) != c.fails {
					t.Errorf("it ended with %v", err)
				}
				for _, word := range c.says {
					if !strings.Contains(string(out), word) {
						t.Errorf("it doesn't say %q: %s", word, out)
					}
				}
				if strings.Contains(string(out), "panic") {
					t.Errorf("%s", out)
				}
			})
		}
	}
}

// inAnEmptyModule builds a program in a module that needs this one only.
func inAnEmptyModule(t *testing.T, source string) (binary string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"main.go": []byte(source), "go.sum": sums} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/first"},
		{"mod", "edit", "-require=github.com/doclock/doclock@v0.0.0", "-replace=github.com/doclock/doclock=" + root},
		{"mod", "tidy"},
		{"build", "-o", "first", "."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return filepath.Join(dir, "first")
}
