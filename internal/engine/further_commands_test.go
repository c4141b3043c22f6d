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
	into  = flag.String("into", "", "a directory for TestFurtherCommands to write to")
	drawn = flag.Int("rules", 6, "the number of rules that TestFurtherCommands draws")
	seed  = flag.Uint64("seed", 1, "the seed of the drawn rules")
)

// The commands of drawn rules, for the evaluation that compares servers
// (proptest/evaluation). Each second one has a shard key.
func TestFurtherCommands(t *testing.T) {
	if *into == "" {
		t.Skip("no directory given")
	}
	w := newWorld(t)
	r := rand.New(rand.NewPCG(*seed, 0))
	for i := range *drawn {
		rules := drawRules(r)
		cfg := Config{TTL: ttl, WaitTTL: waitTTL, Tolerance: extra, Owner: "$$x.$y", Field: DefaultField}
		if i%2 == 1 {
			cfg.ShardKey = []string{"region", "_id"}
		}
		e, err := New(w.lab, rules, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range rules.Tags() {
			path := filepath.Join(*into, fmt.Sprintf("drawn%d.%s.json", i, tag))
			if err := os.WriteFile(path, []byte(w.commandsOf(e, tag)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
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
