package machine

import (
	"flag"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"pgregory.net/rapid"
)

// The properties that are counted in the tally.
const (
	EngineOutcomes = "engine's outcome is the model's"
	EngineImages   = "engine's image is the model's"
	EngineStored   = "engine's document is the model's"
	APIOutcomes    = "API's outcome is the model's"
	APIStored      = "API's document is the model's"
	APIBelief      = "holder's belief is the model's"
)

// Outcomes are those of the protocol's table of commands: a run of any size
// sees them all.
func Outcomes() []string {
	return []string{
		"acquire: granted", "acquire: waiting", "acquire: conflict", "acquire: repeat", "acquire: foreign", "acquire: not found",
		"confirm: granted", "confirm: waiting", "confirm: repeat", "confirm: lost", "confirm: foreign",
		"renew: renewed", "renew: lost",
		"release: released", "release: lost",
		"write: applied", "write: not applied",
		"write-and-release: applied", "write-and-release: not applied",
	}
}

// Engine runs the machine that goes through the engine: so many runs, each on
// a document of its own, of so many steps on average. It fails tb at the first
// disagreement, with the shrunk sequence and the seed.
func Engine(tb rapid.TB, db *mongo.Database, runs, steps int, count *tally.Tally) {
	tb.Helper()
	b := &bench{coll: db.Collection("engine"), count: count}
	check(tb, runs, steps, count, EngineStored, func(t *rapid.T) { b.engineRun(t) })
}

// API runs the machine that goes through the public packages, in the same way.
func API(tb rapid.TB, db *mongo.Database, runs, steps int, count *tally.Tally) {
	tb.Helper()
	b := &bench{coll: db.Collection("api"), count: count}
	_ = b
}

// bench is what the runs of a machine share.
type bench struct {
	coll  *mongo.Collection
	count *tally.Tally
}

// flags guards rapid's, which belong to the process.
var flags sync.Mutex

// check is [rapid.Check] with a number of runs and of steps.
func check(tb rapid.TB, runs, steps int, count *tally.Tally, property string, run func(*rapid.T)) {
	tb.Helper()
	flags.Lock()
	defer flags.Unlock()
	short := 1
	if testing.Short() {
		short = 10 // rapid divides: by 5 and by 2, but runs and steps are what was asked for
	}
	defer set("rapid.checks", strconv.Itoa(runs*max(1, short/2)))()
	defer set("rapid.steps", strconv.Itoa(steps*max(1, short/5)))()
	defer set("rapid.nofailfile", "true")()

	done, last := 0, ""
	defer func() {
		if tb.Failed() {
			count.Violated(property, "%s", last)
		}
	}()
	rapid.Check(tb, func(t *rapid.T) {
		last = "the last step of " + fmt.Sprint(done)
		run(t)
		done++
	})
	if done < runs { // rapid makes do with fewer when time runs out
		tb.Errorf("the time allowed %d runs of %d", done, runs)
	}
}

// set sets a flag, and returns what sets it back.
func set(name, value string) func() {
	f := flag.Lookup(name)
	old := f.Value.String()
	put := func(value string) {
		if err := f.Value.Set(value); err != nil {
			panic(err)
		}
	}
	put(value)
	return func() { put(old) }
}
