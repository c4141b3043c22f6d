package engine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/doclock/doclock/relations"
)

var (
	into    = flag.String("into", "", "a directory for TestFurtherCommands to write to")
	presets = flag.Bool("presets", false, "have TestFurtherCommands write the commands of all presets too")
	drawn   = flag.Int("rules", 6, "the number of rules that TestFurtherCommands draws")
	seed    = flag.Uint64("seed", 1, "the seed of the drawn rules")
)

// The commands of presets, and of rules that nobody has chosen, for the evaluation that compares servers
// (proptest/evaluation): every second of those that are drawn has a shard key.
func TestFurtherCommands(t *testing.T) {
	t.Parallel()
	if *into == "" {
		t.Skip("no directory given")
	}
	w := newWorld(t)
	write := func(name string, rules relations.Rules, e *Engine) {
		for _, tag := range rules.Tags() {
			path := filepath.Join(*into, name+"."+tag+".json")
			if err := os.WriteFile(path, []byte(w.commandsOf(e, tag)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if *presets {
		for name, rules := range map[string]relations.Rules{
			"Exclusive":        relations.Exclusive(),
			"ReadPreferring":   relations.ReadPreferring(),
			"WritePreferring":  relations.WritePreferring(),
			"Fair":             relations.Fair(),
			"Semaphore3":       relations.Semaphore(3),
			"MultiGranularity": relations.MultiGranularity(),
		} {
			write(name, rules, w.configured(rules, "owner"))
		}
	}
	r := rand.New(rand.NewPCG(*seed, 0))
	for i := range *drawn {
		rules := drawRules(r)
		var shardKey []string
		if i%2 == 1 {
			shardKey = []string{"region", "_id"}
		}
		write(fmt.Sprintf("drawn%d", i), rules, w.configured(rules, "$$x.$y", shardKey...))
	}
}

// drawRules draws rules of two to four tags.
func drawRules(r *rand.Rand) relations.Rules {
	rules := relations.Rules{}
	tags := []string{"a", "b", "c-1", "d"}[:2+r.IntN(3)]
	for _, from := range tags {
		rules[from] = map[string]relations.Relation{}
		for _, to := range tags {
			if kind := []relations.Kind{relations.None, relations.Cooperative, relations.Assertive}[r.IntN(3)]; kind != relations.None {
				rules[from][to] = relations.Relation{Kind: kind, Allow: max(0, r.IntN(5)-1)}
			}
		}
	}
	return rules
}
