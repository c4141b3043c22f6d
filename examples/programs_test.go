package examples_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// printed is what each program may print. One without an entry here serves until
// it is interrupted; see editFormServes.
var printed = map[string][]string{
	"contact": {
		"add Ada to Friends: done\ndelete Friends: refused: a contact has this category\n",
		"add Ada to Friends: refused: doclock: not acquired: no such document: book.categories has none with _id {\"$oid\":…}; doclock.Upsert() would make it\ndelete Friends: done\n",
	},
	"editform": nil,
	"jobqueue": {
		"a worker dies at: send the invoice\ndone: send the news\ndone: tidy up\ndone: send the invoice\n",
		"a worker dies at: send the invoice\ndone: tidy up\ndone: send the news\ndone: send the invoice\n", // two workers
	},
	"leader": {"term 1 has a greater token than the one before: true\nterm 2 has a greater token than the one before: true\n" +
		"term 3 has a greater token than the one before: true\n"},
	"transfer":  {"too much: there is too little in the account\nto itself: the two accounts are the same\nbalance: 80\nbalance: 120\n"},
	"writelock": {"prints: 1\n"},
}

// databases are those that the programs write to. They are dropped before and
// after, unless a server of the user's own has them already.
var databases = []string{"bank", "book", "jobs", "queue", "shop", "wiki"}

var objectIDs = regexp.MustCompile(`"\$oid":"[0-9a-f]{24}"`)

// alone waits until no other checkout on this machine runs the programs, whose databases
// have these names, too.
func alone(t *testing.T, client *mongo.Client) {
	locks, err := writelock.New(client.Database("doclock").Collection("tests"), doclock.Upsert())
	if err != nil {
		t.Fatal(err)
	}
	lease, err := locks.Acquire(t.Context(), doclock.ID("programs"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	lease.KeepAlive(ctx)
	t.Cleanup(func() {
		stop()
		_ = lease.Release(context.Background()) // lost if the machine stood still
	})
}

// The programs run in an empty module, and say what is wrong where there is no
// server.
func TestPrograms(t *testing.T) {
	client := mongotest.Client(t)
	if os.Getenv("MONGODB_URI") != "" {
		theirs, err := client.ListDatabaseNames(t.Context(), bson.M{"name": bson.M{"$in": databases}})
		if err != nil || len(theirs) > 0 {
			t.Fatalf("the server of MONGODB_URI has the databases %q, which this test would drop (%v); give another server", theirs, err)
		}
	} else {
		alone(t, client)
	}
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
	binaries := inAnEmptyModule(t)
	t.Run("editform/right", func(t *testing.T) {
		t.Parallel()
		editFormServes(t, filepath.Join(binaries, "editform"))
	})
	for name, right := range printed {
		for fault, c := range map[string]struct {
			uri   string
			fails bool
			says  []string
		}{
			"missing":     {"", true, []string{"set MONGODB_URI"}},
			"malformed":   {"localhost:27017", true, []string{"parsing uri", "scheme"}},
			"unreachable": {unreachable, true, []string{"server selection error", "127.0.0.1:1", "connection refused"}},
			"right":       {mongotest.URI(t), false, nil},
		} {
			if !c.fails && right == nil {
				continue
			}
			t.Run(name+"/"+fault, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, name))
				cmd.Env = append(os.Environ(), "MONGODB_URI="+c.uri)
				if c.uri == unreachable {
					cmd.Env = append(cmd.Env, "PATIENCE=2s")
				}
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
				if !c.fails && !slices.Contains(right, objectIDs.ReplaceAllString(string(out), `"$$oid":…`)) {
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
	for _, file := range append(files, "contact/book/book.go") {
		program, _, _ := strings.Cut(file, "/")
		if _, known := printed[program]; !known {
			t.Errorf("what does %s print?", program)
		}
		if n := strings.Count(source(t, "examples/"+file), "\n"); n > most && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s: %d lines, want %d at most", file, n, most)
		}
	}
}

// inAnEmptyModule builds the programs in a module that needs this one only. They
// are linked as one, which runs the program of the name that it is called by: a
// dozen links would take longer than all that the tests do.
func inAnEmptyModule(t *testing.T) (binaries string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copyFile(t, filepath.Join(root, "go.sum"), filepath.Join(dir, "go.sum"))
	binaries = t.TempDir()
	var imports, cases strings.Builder
	for program := range printed {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, program), 0o700), os.Symlink("all", filepath.Join(binaries, program))); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&imports, "\t%q\n", "example.com/first/"+program)
		fmt.Fprintf(&cases, "\tcase %q:\n\t\t%s.Main()\n", program, program)
		files, err := filepath.Glob(program + "/*.*")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			copyFile(t, file, filepath.Join(dir, file), "package main\n", "package "+program+"\n", "\nfunc main()", "\nfunc Main()")
		}
	}
	all := "package main\n\nimport (\n\t\"os\"\n\t\"path/filepath\"\n\n" + imports.String() + ")\n\nfunc main() {\n\tswitch filepath.Base(os.Args[0]) {\n" + cases.String() + "\t}\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/first"},
		{"mod", "edit", "-require=github.com/doclock/doclock@v0.0.0", "-replace=github.com/doclock/doclock=" + root},
		{"mod", "tidy"},
		{"build", "-ldflags=-s -w", "-overlay", lessPatience(t), "-o", filepath.Join(binaries, "all"), "."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return binaries
}

func copyFile(t *testing.T, from, to string, replace ...string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lessPatience is an overlay for the compiler. With it the environment can shorten the half minute for which a server that
// can't be reached is asked: the tests would wait for it.
func lessPatience(t *testing.T) (overlay string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	const file = "internal/engine/config.go"
	text := source(t, file)
	limit := regexp.MustCompile(`DefaultRetryLimit += 30 \* time\.Second`).FindString(text)
	if limit == "" {
		t.Fatalf("%s doesn't have DefaultRetryLimit as it was", file)
	}
	replacement := filepath.Join(t.TempDir(), "config.go")
	overlay = filepath.Join(filepath.Dir(replacement), "overlay.json")
	table, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, file): replacement}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		replacement: []byte(strings.NewReplacer(limit, "", "import (", "import (\n\"os\"").Replace(text) + fromEnvironment),
		overlay:     table,
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}

const fromEnvironment = `
var DefaultRetryLimit = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("PATIENCE")); err == nil {
		return d
	}
	return 30 * time.Second
}()
`
