package machine

import (
	"flag"
	"strconv"

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
// disagreement, with the shrunk sequence and the seed. It sets rapid's flags, which belong to the process.
func Engine(tb rapid.TB, db *mongo.Database, runs, steps int, count *tally.Tally) {
	tb.Helper()
	for name, value := range map[string]string{"rapid.checks": strconv.Itoa(runs), "rapid.steps": strconv.Itoa(steps), "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	done, passed := 0, false
	defer func() { // rapid leaves by runtime.Goexit
		if !passed {
			count.Violated(EngineRuns, "run %d does not; the log has the shrunk sequence and the seed", done+1)
		}
		count.Checked(EngineRuns, done)
	}()
	rapid.Check(tb, func(t *rapid.T) {
		run(t, db.Collection("engine"), count)
		done++
	})
	passed = true
	if done < runs { // rapid stops earlier when time runs out
		tb.Errorf("the time allowed %d runs of %d", done, runs)
	}
}
