package mongotest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// On a real server no test may depend on a machine that is punctual. What is about time runs in virtual time, see [Virtual]. So
// every client looks at what it sends: a command must have time to be answered on a machine that is busy with something else,
// and what it enters must not expire meanwhile.
const (
	// Patience bounds every wait for something that must happen.
	Patience = 2 * time.Minute

	leastTTL     = 10 * time.Second
	leastPatient = 5 * time.Second // of the 10 s of an attempt a busy machine may have spent some before it sends
)

// unpunctual are the tests that may do so all the same, and why.
var unpunctual = map[string]string{
	"TestSweepBesideRunningLockers": "leases are left to expire, and nothing depends on when",
	"TestCommands":                  "the commands are shown, and nothing waits for what they enter",
	"TestFurtherCommands":           "as TestCommands, for drawn options",
	"TestEntriesCloseTheCursor":     "the driver gives the end of a cursor a second, and the test counts what is sent",
}

// unpunctualFolders are those of packages that may do so, and why.
var unpunctualFolders = map[string]string{
	"/proptest/": "they end processes, servers and connections in real time, and judge by what has happened, whenever that was",
	"/examples/": "programs as an adopter writes them, with the library's own TTL of 10 s",
}

// hurried are the commands that must not be sent, by test.
var hurried struct {
	sync.Mutex
	byTest map[string]string
}

// tests are the names of the tests, by database.
var tests sync.Map

// patient is the options with a monitor that looks at each command.
func patient(opts *options.ClientOptions) *options.ClientOptions {
	inner := opts.Monitor
	if inner == nil {
		inner = &event.CommandMonitor{}
	}
	outer := *inner
	outer.Started = func(ctx context.Context, e *event.CommandStartedEvent) {
		inspect(ctx, e)
		if inner.Started != nil {
			inner.Started(ctx, e)
		}
	}
	return options.MergeClientOptions(opts).SetMonitor(&outer)
}

// inspect records a command that expects a punctual machine.
func inspect(ctx context.Context, e *event.CommandStartedEvent) {
	what := ""
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < leastPatient {
		what = fmt.Sprintf("has to be answered in %v", time.Until(deadline).Round(time.Millisecond))
	}
	if ttl, found := shortest(e.Command); found && ttl < leastTTL {
		what = fmt.Sprintf("makes an entry with a TTL of %v", ttl)
	}
	if what == "" || e.DatabaseName == "admin" {
		return
	}
	test := e.DatabaseName
	if name, ok := tests.Load(test); ok {
		test = name.(string)
	}
	for known := range unpunctual {
		if test == known || strings.HasPrefix(test, known+"/") {
			return
		}
	}
	hurried.Lock()
	defer hurried.Unlock()
	if hurried.byTest == nil {
		hurried.byTest = map[string]string{}
	}
	hurried.byTest[test] = e.CommandName + " " + what
}

// shortest is the shortest time that a command adds to the server's.
func shortest(command bson.Raw) (least time.Duration, found bool) {
	var numbers func(v bson.RawValue)
	numbers = func(v bson.RawValue) {
		if n, ok := v.AsInt64OK(); ok {
			if d := time.Duration(n) * time.Millisecond; !found || d < least {
				least, found = d, true
			}
		}
		for _, inner := range values(v) {
			numbers(inner)
		}
	}
	var walk func(v bson.RawValue)
	walk = func(v bson.RawValue) {
		if doc, ok := v.DocumentOK(); ok {
			if terms, ok := doc.Lookup("$add").ArrayOK(); ok {
				if of, ok := bson.Raw(terms).Lookup("0").StringValueOK(); ok && of == "$$NOW" {
					numbers(doc.Lookup("$add"))
				}
			}
		}
		for _, inner := range values(v) {
			walk(inner)
		}
	}
	walk(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: command})
	return least, found
}

// values are those in a document or an array.
func values(v bson.RawValue) []bson.RawValue {
	var inside []bson.RawValue
	if doc, ok := v.DocumentOK(); ok {
		inside, _ = doc.Values()
	} else if array, ok := v.ArrayOK(); ok {
		inside, _ = array.Values()
	}
	return inside
}

// checkPunctual is an error that lists the tests that expect a punctual machine.
func checkPunctual() error {
	hurried.Lock()
	defer hurried.Unlock()
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	for folder := range unpunctualFolders {
		if strings.Contains(filepath.ToSlash(here)+"/", folder) {
			return nil
		}
	}
	var list []string
	for test, what := range hurried.byTest {
		list = append(list, "\n"+test+": "+what)
	}
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	return fmt.Errorf("tests on a real server that depend on a punctual machine (see mongotest.Virtual):%s", strings.Join(list, ""))
}
