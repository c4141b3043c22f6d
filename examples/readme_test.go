// Package examples_test runs the examples, and compares them with the README.
package examples_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// printed is what each program may print, by its directory.
var printed = map[string][]string{
	"examples/writelock": {"prints: 1\n"},
	"examples/multilock": {"ada is a friend\n"},
	"examples/transfer":  {"too much: there is too little in the account\nbalance: 80\nbalance: 120\n"},
	"examples/leader":    {"term 1 has a greater token than the one before: true\nterm 2 has a greater token than the one before: true\nterm 3 has a greater token than the one before: true\n"},
	"examples/contact": {
		"add Ada to Friends: done\ndelete Friends: refused: a contact has this category\n",
		"add Ada to Friends: refused: doclock: not acquired: no such document\ndelete Friends: done\n",
	},
}

var program = regexp.MustCompile("(?s)<!-- (examples/[a-z]+)/main.go -->\n```go\n(.*?)```")

// The README shows the first two programs as they are, and links to the third.
// All are short.
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
		if n := strings.Count(source(t, file), "\n"); n > 80 {
			t.Errorf("%s: %d lines, want 80 at most", file, n)
		}
	}
}

// The programs run in an empty module, and say what is wrong where there is no
// server.
func TestFirstPrograms(t *testing.T) {
	client := mongotest.Client(t)
	drop := func() {
		for _, name := range []string{"shop", "book", "bank", "jobs"} {
			if err := client.Database(name).Drop(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	drop()
	t.Cleanup(drop)
	const unreachable = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1000"
	overlay := lessPatience(t)
	for dir, right := range printed {
		binary, impatient := inAnEmptyModule(t, dir, overlay)
		for name, c := range map[string]struct {
			binary, uri string
			fails       bool
			says        []string
		}{
			"missing":     {binary, "", true, []string{"set MONGODB_URI"}},
			"malformed":   {binary, "localhost:27017", true, []string{"parsing uri", "scheme"}},
			"unreachable": {impatient, unreachable, true, []string{"server selection error", "127.0.0.1:1", "connection refused"}},
			"right":       {binary, mongotest.URI(t), false, nil},
		} {
			t.Run(dir+"/"+name, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), c.binary)
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
				if !c.fails && !slices.Contains(right, string(out)) {
					t.Errorf("it prints %q, want one of %q", out, right)
				}
				if strings.Contains(string(out), "panic") {
					t.Errorf("%s", out)
				}
			})
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

// inAnEmptyModule builds a program in a module that needs this one only, as it is and with an overlay.
func inAnEmptyModule(t *testing.T, program, overlay string) (binary, impatient string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(root, program, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, filepath.Join(root, "go.sum")) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/first"},
		{"mod", "edit", "-require=github.com/doclock/doclock@v0.0.0", "-replace=github.com/doclock/doclock=" + root},
		{"mod", "tidy"},
		{"build", "-o", "first", "."},
		{"build", "-overlay", overlay, "-o", "impatient", "."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return filepath.Join(dir, "first"), filepath.Join(dir, "impatient")
}

// lessPatience is an overlay for the compiler with which half a minute's patience with a server that can't be reached is two
// seconds: the tests would wait for it.
func lessPatience(t *testing.T) (overlay string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	const file, patience = "internal/engine/config.go", "DefaultPatience   = 30 * time.Second"
	text := source(t, file)
	if !strings.Contains(text, patience) {
		t.Fatalf("%s doesn't have %q", file, patience)
	}
	replacement := filepath.Join(t.TempDir(), "config.go")
	overlay = filepath.Join(filepath.Dir(replacement), "overlay.json")
	table, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, file): replacement}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		replacement: []byte(strings.Replace(text, patience, "DefaultPatience   = 2 * time.Second", 1)),
		overlay:     table,
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}
