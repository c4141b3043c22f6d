package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/testscript"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A test binary by the name of doclock is the command line, so that the scripts run
// real processes.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "doclock" {
		patience = mongotest.Patience // on a busy machine an answer may take longer
		main()
	}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) { // a process inherits that, and not that a signal is caught
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	mongotest.Main(m)
}

// TestScripts runs the stories in testdata/script. Each has a collection of its own,
// the programs in testdata/bin, and these commands beside testscript's:
//
//	ends CODE|SIGNAL PROGRAM …  runs a program, which must end so
//	until PROGRAM …             runs a program until it ends with 0
//	insert DOCUMENT|N ENTRY…    writes a document, or N, see entry
//	net …                       changes the way to the server of $PROXIED, see proxy
//	covers NAME FILE            waits for the end of the process whose id is in the file;
//	                            until then the lock of the name must not end
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	own, err := os.Executable()
	must(t, err)
	must(t, os.Symlink(own, filepath.Join(bin, "doclock")))
	scripts, err := filepath.Abs("testdata/bin")
	must(t, err)
	testscript.Run(t, testscript.Params{
		Dir:       "testdata/script",
		Setup:     func(env *testscript.Env) error { return setUp(env, bin+":"+scripts) },
		Cmds:      map[string]func(*testscript.TestScript, bool, []string){"ends": endsWith, "until": until, "insert": insert, "net": network, "covers": covers},
		Condition: condition,
	})
}

// story is what the commands of one script share.
type story struct {
	testing.TB
	coll *mongo.Collection
	way  *proxy
}

func setUp(env *testscript.Env, path string) error {
	tb := env.T().(testing.TB)
	s := story{tb, mongotest.Database(tb).Collection("locks"), newProxy(tb, mongotest.URI(tb))}
	env.Values["story"] = s
	tb.Cleanup(func() { // the story "documents" makes a named lock by this name
		_, _ = s.coll.Database().Client().Database("doclock").Collection("locks").DeleteOne(context.Background(), doclock.ID(s.coll.Database().Name()+".locks"))
	})
	for name, value := range map[string]string{
		"PATH": path + ":" + os.Getenv("PATH"), "MONGODB_URI": mongotest.URI(tb), "PROXIED": s.way.uri, "TERM": "xterm",
		"DOCLOCK_COLLECTION": s.coll.Database().Name() + ".locks", "GORACE": "atexit_sleep_ms=0",
	} {
		env.Setenv(name, value)
	}
	return nil
}

// condition knows [namespaces]: unshare works.
func condition(name string) (bool, error) {
	if name != "namespaces" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	return exec.Command("unshare", "--pid", "--fork", "--mount-proc", "true").Run() == nil, nil
}

func endsWith(ts *testscript.TestScript, _ bool, args []string) {
	got := "0"
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled():
		got = exit.Sys().(syscall.WaitStatus).Signal().String()
	case errors.As(err, &exit):
		got = strconv.Itoa(exit.ExitCode())
	default:
		ts.Check(err)
	}
	if got != args[0] {
		ts.Fatalf("it ended with %s", got)
	}
}

func until(ts *testscript.TestScript, _ bool, args []string) {
	fixture.Eventually(ts.Value("story").(story), strings.Join(args, " "), func() bool { return ts.Exec(args[0], args[1:]...) == nil })
}

// entry is an entry of a document, as the library writes it. Without a fence it waits.
type entry struct {
	Tag, Owner string
	ID         uuid.UUID
	Fence      int64
	Age, Left  string // until it expires; an hour
}

// insert writes documents whose lock has these entries, in JSON. The ids of N are the
// numbers from 0 on.
func insert(ts *testscript.TestScript, _ bool, args []string) {
	n, noNumber := strconv.Atoi(args[0])
	var all []any
	for i := range max(n, 1) {
		doc := bson.D{{Key: "_id", Value: i}}
		if noNumber != nil {
			doc = nil
			ts.Check(bson.UnmarshalExtJSON([]byte(args[0]), false, &doc))
		}
		if len(args) > 1 {
			tags, now := map[string]bson.A{}, time.Now()
			for i, text := range args[1:] {
				e := entry{ID: uuid.New(), Left: "1h"}
				ts.Check(json.Unmarshal([]byte(text), &e))
				age, _ := time.ParseDuration(e.Age)
				left, err := time.ParseDuration(e.Left)
				ts.Check(err)
				d := bson.D{
					{Key: "id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: e.ID[:]}}, {Key: "owner", Value: e.Owner},
					{Key: "seq", Value: int64(i + 1)}, {Key: "since", Value: now.Add(-age)}, {Key: "expires", Value: now.Add(left)},
				}
				if e.Fence > 0 {
					d = append(d, bson.E{Key: "fence", Value: e.Fence})
				}
				tags[e.Tag] = append(tags[e.Tag], d)
			}
			doc = append(doc, bson.E{Key: "lock", Value: bson.D{{Key: "fence", Value: int64(100)}, {Key: "tags", Value: tags}}})
		}
		all = append(all, doc)
	}
	s := ts.Value("story").(story)
	_, err := s.coll.InsertMany(s.Context(), all)
	ts.Check(err)
}

func network(ts *testscript.TestScript, _ bool, args []string) {
	s := ts.Value("story").(story)
	switch args[0] {
	case "down", "up":
		s.way.net.Down(args[0] == "down")
	case "refuses": // waits until it has refused a connection
		fixture.Eventually(s, "a connection is refused", func() bool { return s.way.refused.Load() > 0 })
	case "silent": // the server answers nothing any more, from this command on
		var now atomic.Bool
		s.way.net.Block(func(command string, _ []byte) bool {
			return now.Load() || command == args[1] && now.CompareAndSwap(false, true)
		})
	case "answers":
		s.way.net.Block(nil)
	case "delay": // keeps the answer to the next command of this name back, until "let"
		s.way.held = s.way.net.Arm(faultnet.DelayReply, args[1])
	case "held": // waits until there is one
		<-s.way.held.Fired()
	case "let":
		<-s.way.held.Fired()
		ts.Check(s.way.held.Let())
	default:
		ts.Fatalf("net %s?", args[0])
	}
}

func covers(ts *testscript.TestScript, _ bool, args []string) {
	s := ts.Value("story").(story)
	pid := strings.TrimSpace(ts.ReadFile(args[1]))
	fixture.Eventually(s, "the process ends", func() bool {
		lock, err := admin.Inspect(s.Context(), s.coll, doclock.ID(args[0])) // before the look at the process, which may come late
		ended := exec.Command("testdata/bin/gone", pid).Run() == nil
		if !ended && (err != nil || len(lock.Entries) != 1 || lock.Entries[0].Remaining < time.Second) { // of the grace, and the tolerance
			s.Fatalf("the process lives beside %v, %v", lock, cmp.Or(err))
		}
		return ended
	})
}
