package machine

import (
	"flag"
	"strconv"
	"sync"
	"testing"

	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/proptest/model"
	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"pgregory.net/rapid"
)

// The properties in the tally. Each counts once per run, step, outcome, image or
// stored document.
const (
	EngineRuns     = "engine agrees with the model"
	EngineSteps    = "engine's steps"
	EngineOutcomes = "engine's outcome is the model's"
	EngineImages   = "engine's image is the model's"
	EngineStored   = "engine's document is the model's"
)

// Outcomes are those of the protocol's table of commands. A run of any size
// sees them all.
func Outcomes() []string {
	return []string{
		"acquire: granted", "acquire: waiting", "acquire: conflict", "acquire: repeat", "acquire: foreign", "acquire: not found",
		"confirm: granted", "confirm: waiting", "confirm: repeat", "confirm: lost", "confirm: foreign",
		"renew: renewed", "renew: lost",
		"release: released", "release: lost",
		"write: applied", "write: not applied",
		"write-and-release: applied", "write-and-release: not applied",
		"detach: detached", "detach: lost", "resume: granted", "resume: lost", "touch: renewed", "touch: lost",
		"downgrade: granted", "downgrade: conflict", "downgrade: lost",
		"handoff: granted", "handoff: lost", "handoff: not applied", // conflict and waiting are rarer
		"compare-and-set: granted", "compare-and-set: not applied",
	}
}

// Engine runs the machine: a number of runs, each with its own document, of a number of steps on average. It fails tb at the first
// disagreement, with the shrunk sequence and the seed.
func Engine(tb rapid.TB, db *mongo.Database, runs, steps int, count *tally.Tally) {
	tb.Helper()
	b := &bench{coll: db.Collection("engine"), count: count}
	b.check(tb, runs, steps, EngineRuns, b.engineRun)
}

// EngineInMemory runs the machine on locktest's server.
func EngineInMemory(tb rapid.TB, runs, steps int, count *tally.Tally) {
	tb.Helper()
	Engine(tb, locktest.New().Client().Database("machine"), runs, steps, count)
}

// bench is shared by the runs of a machine.
type bench struct {
	coll  *mongo.Collection
	count *tally.Tally
	model model.Protocol
}

// flags guards rapid's flags, which belong to the process.
var flags sync.Mutex

// check is [rapid.Check] with a number of runs and of steps.
func (b *bench) check(tb rapid.TB, runs, steps int, property string, run func(*rapid.T)) {
	tb.Helper()
	flags.Lock()
	defer flags.Unlock()
	checks, repeats := runs, steps
	if testing.Short() { // rapid divides, but the full number is wanted
		checks, repeats = 5*runs, 2*steps
	}
	defer set("rapid.checks", strconv.Itoa(checks))()
	defer set("rapid.steps", strconv.Itoa(repeats))()
	defer set("rapid.nofailfile", "true")()

	done, passed := 0, false
	defer func() { // rapid leaves by runtime.Goexit
		if !passed {
			b.count.Violated(property, "run %d does not; the log has the shrunk sequence and the seed", done+1)
		}
		b.count.Checked(property, done)
	}()
	rapid.Check(tb, func(t *rapid.T) {
		run(t)
		done++
	})
	passed = true
	if done < runs { // rapid stops earlier when time runs out
		tb.Errorf("the time allowed %d runs of %d", done, runs)
	}
}

// set sets a flag, and returns a function that restores it.
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
