// Package examples_test runs the programs. The tests of docs compare them with the pages.
package examples_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// printed is what each program may print. The one without an entry serves until it is
// interrupted; see editFormServes.
var printed = map[string][]string{
	"contact": {
		"add Ada to Friends: <nil>\ndelete Friends: a contact has this category\n",
		"add Ada to Friends: doclock: not acquired: no such document: book.categories has none with _id {\"$oid\":…}; the _id is of type objectID\ndelete Friends: <nil>\n",
	},
	"editform": nil,
	"jobqueue": {
		"a worker dies at: send the invoice\ndone: send the news\ndone: tidy up\ndone: send the invoice\n",
		"a worker dies at: send the invoice\ndone: tidy up\ndone: send the news\ndone: send the invoice\n", // two workers
	},
	"leader": {"term 1 has a greater token than the one before: true\nterm 2 has a greater token than the one before: true\n" +
		"term 3 has a greater token than the one before: true\n"},
	"transfer":  {"too much: there is too little in the account\nto itself: the two accounts are the same\nbalance: 80\nbalance: 120\n"},
	"writelock": {"packing the order\n"},
}

// databases are those that the programs write to.
var databases = []string{"bank", "book", "jobs", "queue", "shop", "wiki"}

var objectIDs = regexp.MustCompile(`"\$oid":"[0-9a-f]{24}"`)

// The programs do what they say, and say what is wrong where there is no server. Their
// databases are dropped before and after.
func TestPrograms(t *testing.T) {
	client := mongotest.Client(t)
	drop := func() {
		for _, name := range databases {
			if err := client.Database(name).Drop(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	if os.Getenv("DOCLOCK_TEST_URI") != "" {
		theirs, err := client.ListDatabaseNames(t.Context(), bson.M{"name": bson.M{"$in": databases}})
		if err != nil || len(theirs) > 0 {
			t.Fatalf("the server of DOCLOCK_TEST_URI has the databases %q, which this test would drop (%v); give another server", theirs, err)
		}
	}
	binaries := built(t)
	drop()
	defer drop()
	t.Run("", func(t *testing.T) { runAll(t, binaries) })
}

// built builds the programs. They use nothing that a program of another module can't.
func built(t *testing.T) (binaries string) {
	t.Helper()
	imports, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Imports}}", "./...").CombinedOutput()
	if err != nil || strings.Contains(string(imports), "/doclock/internal/") {
		t.Errorf("a program imports what others can't: %s (%v)", imports, err)
	}
	binaries = t.TempDir() + "/"
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", binaries, "./...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if found, err := os.ReadDir(binaries); err != nil || len(found) != len(printed) {
		t.Errorf("there are %d programs, and this test knows %d (%v)", len(found), len(printed), err)
	}
	return binaries
}

func runAll(t *testing.T, binaries string) {
	const unreachable = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1000"
	for name, right := range printed {
		for uri, says := range map[string][]string{
			"":                               {"set MONGODB_URI"},
			"mongodb://ann:geheim/localhost": {"set MONGODB_URI"},
			unreachable:                      {"server selection error", "127.0.0.1:1", "connection refused"},
			mongotest.URI(t):                 nil,
		} {
			t.Run(name+"/"+strings.Join(says, ","), func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), binaries+name)
				cmd.Env = append(os.Environ(), "MONGODB_URI="+uri)
				if says == nil && right == nil {
					cmd.Args = append(cmd.Args, "-listen", "127.0.0.1:0")
					editFormServes(t, cmd)
					return
				}
				out, err := cmd.CombinedOutput()
				if (err != nil) != (says != nil) || strings.Contains(string(out), "panic") || strings.Contains(string(out), "geheim") {
					t.Errorf("it ended with %v: %s", err, out)
				}
				for _, word := range says {
					if !strings.Contains(string(out), word) {
						t.Errorf("it doesn't say %q: %s", word, out)
					}
				}
				if says == nil && !slices.Contains(right, objectIDs.ReplaceAllString(string(out), `"$$oid":…`)) {
					t.Errorf("it prints %q, want one of %q", out, right)
				}
			})
		}
	}
}

// editFormServes starts the web application, looks at its page, and interrupts it.
func editFormServes(t *testing.T, cmd *exec.Cmd) {
	out, err := cmd.StdoutPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	page := regexp.MustCompile(`^edit (http://127\.0\.0\.1:\d+/welcome) \(Ctrl-C ends\)\n$`).FindStringSubmatch(line)
	if page == nil {
		t.Fatalf("it prints %q (%v)", line, err)
	}
	answer, err := http.Get(page[1])
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
