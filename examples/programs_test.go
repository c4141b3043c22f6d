package examples_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
)

// printed is what each program may print. One without an entry here serves until
// it is interrupted; see editFormServes.
var printed = map[string][]string{
	"contact": {
		"add Ada to Friends: done\ndelete Friends: refused: a contact has this category\n",
		"add Ada to Friends: refused: doclock: not acquired: no such document\ndelete Friends: done\n",
	},
	"cron":          {"tick 1: 3 machines came, runs so far: 1\ntick 2: 3 machines came, runs so far: 2\n"},
	"customercalls": {"12 calls, never more than 3 at a time\n"},
	"editform":      nil,
	"jobqueue": {
		"a worker dies at: send the invoice\ndone: send the news\ndone: tidy up\ndone: send the invoice\n",
		"a worker dies at: send the invoice\ndone: tidy up\ndone: send the news\ndone: send the invoice\n", // two workers
	},
	"leader": {"term 1 has a greater token than the one before: true\nterm 2 has a greater token than the one before: true\n" +
		"term 3 has a greater token than the one before: true\n"},
	"migration": {"4 instances started, 1 migrated 3 people\n"},
	"multilock": {"ada is a friend\n"},
	"payment":   {"3 requests, 1 charge, receipt 1 for 30 EUR\n"},
	"report":    {"Bob asks: the report is being made by Ada\nthe report is made\n"},
	"transfer":  {"too much: there is too little in the account\nbalance: 80\nbalance: 120\n"},
	"writelock": {"prints: 1\n"},
}

// databases are those that the programs write to. They are dropped before and
// after.
var databases = []string{"accounts", "bank", "book", "crm", "cron", "jobs", "migration", "queue", "shop", "wiki"}

// The programs run in an empty module, and say what is wrong where there is no
// server.
func TestPrograms(t *testing.T) {
	client := mongotest.Client(t)
	drop := func() {
		for _, name := range databases {
			if err := client.Database(name).Drop(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	drop()
	t.Cleanup(drop)
	const unreachable = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1000"
	binaries, impatient := inAnEmptyModule(t)
	t.Run("editform/right", func(t *testing.T) {
		t.Parallel()
		editFormServes(t, filepath.Join(binaries, "editform"))
	})
	for name, right := range printed {
		for fault, c := range map[string]struct {
			binaries, uri string
			fails         bool
			says          []string
		}{
			"missing":     {binaries, "", true, []string{"set MONGODB_URI"}},
			"malformed":   {binaries, "localhost:27017", true, []string{"parsing uri", "scheme"}},
			"unreachable": {impatient, unreachable, true, []string{"server selection error", "127.0.0.1:1", "connection refused"}},
			"right":       {binaries, mongotest.URI(t), false, nil},
		} {
			if !c.fails && right == nil {
				continue
			}
			t.Run(name+"/"+fault, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), filepath.Join(c.binaries, name))
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

// editFormServes starts the web application, looks at its page, and interrupts
// it.
func editFormServes(t *testing.T, binary string) {
	cmd := exec.CommandContext(t.Context(), binary, "-listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "MONGODB_URI="+mongotest.URI(t))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	page := regexp.MustCompile(`^edit (http://127\.0\.0\.1:\d+/welcome) \(Ctrl-C ends\)\n$`).FindStringSubmatch(line)
	if page == nil {
		t.Fatalf("it prints %q", line)
	}
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := browser.Get(page[1])
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), "Welcome.") {
		t.Errorf("it answers %s (%v): %s", answer.Status, err, text)
	}
	if err := errors.Join(answer.Body.Close(), cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
		t.Error(err)
	}
}

// A program is short, and no directory is forgotten.
func TestProgramsAreShort(t *testing.T) {
	const most = 80
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		program := filepath.Dir(file)
		if _, known := printed[program]; !known {
			t.Errorf("what does %s print?", program)
		}
		if n := strings.Count(source(t, "examples/"+file), "\n"); n > most && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s: %d lines, want %d at most", file, n, most)
		}
	}
}

// inAnEmptyModule builds the programs in a module that needs this one only: as
// they are, and with less patience.
func inAnEmptyModule(t *testing.T) (binaries, impatient string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copyFile(t, filepath.Join(root, "go.sum"), filepath.Join(dir, "go.sum"))
	for program := range printed {
		if err := os.Mkdir(filepath.Join(dir, program), 0o700); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(program + "/*.*")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				copyFile(t, file, filepath.Join(dir, file))
			}
		}
	}
	binaries, impatient = filepath.Join(dir, "binaries"), filepath.Join(dir, "impatient")
	for _, args := range [][]string{
		{"mod", "init", "example.com/first"},
		{"mod", "edit", "-require=github.com/doclock/doclock@v0.0.0", "-replace=github.com/doclock/doclock=" + root},
		{"mod", "tidy"},
		{"build", "-o", binaries + "/", "./..."},
		{"build", "-overlay", lessPatience(t), "-o", impatient + "/", "./..."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return binaries, impatient
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
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
