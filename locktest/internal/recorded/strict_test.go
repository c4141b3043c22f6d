package recorded_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/sent"
	"github.com/doclock/doclock/locktest/internal/recorded"
	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// decisions are the commands that must never raise an error, whatever the field holds.
// The others rely on their filter, or have an update of the caller's.
var decisions = regexp.MustCompile(`^(acquire|try|confirm|convert|handoff|standing|read|look|resume|admin)`)

// MongoDB may evaluate each operand of $and and $or, and each variable of $let, needed or
// not, and a collection may have a collation that ignores case. So the commands of presets
// and of drawn rules are evaluated in the strictest reading too, on random locks and on
// malformed ones: no decision raises an error, and each command does the same.
func TestDecisionsRaiseNoError(t *testing.T) {
	t.Parallel()
	all := map[string]relations.Rules{
		"Exclusive": relations.Exclusive(), "ReadPreferring": relations.ReadPreferring(), "WritePreferring": relations.WritePreferring(),
		"Fair": relations.Fair(), "Semaphore3": relations.Semaphore(3), "MultiGranularity": relations.MultiGranularity(),
	}
	cases := 2
	if *long {
		cases = 100
	}
	r := rand.New(rand.NewPCG(1, 0))
	for i := range 6 {
		all[fmt.Sprint("drawn ", i)] = drawRules(r)
	}
	draw := uint64(0)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		rules := all[name]
		var shardKey []string
		owner := "owner"
		if name[0] == 'd' {
			shardKey, owner = []string{"region", "_id"}, "$$x.$y"
		}
		for _, tag := range rules.Tags() {
			commands, err := sent.Commands(rules, owner, tag, shardKey...)
			if err != nil {
				t.Fatal(err)
			}
			for range cases {
				for _, c := range commands {
					locks := recorded.NewLocks(draw, 0, rules.Tags())
					strictly(t, fmt.Sprint(name, ", ", tag, ", ", c.Name), c, locks.Document(c.Name, tag), locks.Now())
					draw++
				}
			}
			for _, own := range []any{nil, int32(1), bson.D{}, bson.A{int32(1)}} { // the own tag has no entries
				lock := bson.D{{Key: "fence", Value: sent.Fence}, {Key: "tags", Value: bson.D{{Key: tag, Value: own}}}}
				for _, c := range commands {
					strictly(t, fmt.Sprint(name, ", ", tag, ": ", own, ", ", c.Name), c, bson.D{{Key: "_id", Value: int32(1)}, {Key: "lock", Value: lock}}, sent.Fence)
				}
			}
		}
	}
}

func strictly(t *testing.T, name string, c sent.Command, before bson.D, at int64) {
	document, err := bson.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	command, err := bson.Marshal(c.Sent)
	if err != nil {
		t.Fatal(err)
	}
	r := recorded.Recording{Kind: name, Documents: []bson.Raw{document}, Command: command}
	now := time.UnixMilli(at)
	usual, strict := store.New(), store.New()
	strict.Strict = true
	if r.Outcome, err = r.On(inMemory(usual, now), "documents"); err != nil {
		t.Fatal(err)
	}
	got, err := r.On(inMemory(strict, now), "documents")
	if err != nil {
		t.Fatal(err)
	}
	if differs := r.Differs(got); differs != "" || got.Message != "" && decisions.MatchString(c.Name) {
		t.Errorf("%s, strictly: (%d) %s\n%s", name, got.Code, got.Message, differs)
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
