package hammer

import (
	"fmt"
	"math/rand/v2"

	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/relations"
)

// nowhere is a document that does not exist.
const nowhere = "nowhere"

// The documents of this name are claimed: one acquire asks for any of them.
const (
	jobRules = "Exclusive, claimed"
	jobs     = 3
)

type namedRules struct {
	name  string
	rules relations.Rules
}

// documents draws n documents, each with its own rules and times, the missing
// one, and those that are claimed. Every second one of the n has [history.Document.Terms].
func documents(n int, rng *rand.Rand) []history.Document {
	ruleSets := []namedRules{
		{"WritePreferring", relations.WritePreferring()},
		{"Exclusive", relations.Exclusive()},
		{"Fair", relations.Fair()},
		{"Semaphore(2)", relations.Semaphore(2)},
		{"MultiGranularity", relations.MultiGranularity()},
		{"ReadPreferring", relations.ReadPreferring()},
		{"Semaphore(1)", relations.Semaphore(1)},
	}
	for i := len(ruleSets); i < n; i++ {
		ruleSets = append(ruleSets, namedRules{fmt.Sprintf("generated %d", i), generated(rng)})
	}
	docs := []history.Document{{ID: nowhere, Name: "Exclusive", Rules: plain(relations.Exclusive()), TTL: 300, WaitTTL: 300}}
	for i := range n {
		ttl := int64(150 + 50*rng.IntN(8))
		docs = append(docs, history.Document{
			ID:        fmt.Sprintf("d%d", i),
			Name:      ruleSets[i].name,
			Rules:     plain(ruleSets[i].rules),
			TTL:       ttl,
			WaitTTL:   max(100, ttl/2+int64(rng.IntN(200))),
			Tolerance: []int64{0, 20, 100}[rng.IntN(3)],
			Terms:     i%2 == 1,
		})
	}
	for i := range jobs {
		docs = append(docs, history.Document{ID: fmt.Sprintf("job%d", i), Name: jobRules, Rules: plain(relations.Exclusive()), TTL: 300, WaitTTL: 300, Tolerance: 20})
	}
	return docs
}

// generated draws rules of two or three tags, with any relations.
func generated(rng *rand.Rand) relations.Rules {
	tags := []string{"a", "b", "c"}[:2+rng.IntN(2)]
	rules := relations.Rules{}
	for _, x := range tags {
		rules[x] = map[string]relations.Relation{}
		for _, y := range tags {
			kind := []relations.Kind{relations.None, relations.Cooperative, relations.Assertive}[rng.IntN(3)]
			if kind != relations.None {
				rules[x][y] = relations.Relation{Kind: kind, Allow: max(0, rng.IntN(4)-1)}
			}
		}
	}
	return rules
}

// plain is the checker's form of the rules.
func plain(rules relations.Rules) history.Rules {
	t := history.Rules{}
	for x, row := range rules {
		t[x] = map[string]history.Relation{}
		for y, r := range row {
			if r.Kind != relations.None {
				t[x][y] = history.Relation{Assertive: r.Kind == relations.Assertive, Allow: r.Allow}
			}
		}
	}
	return t
}

// rulesOf is the library's form of the rules.
func rulesOf(t history.Rules) relations.Rules {
	rules := relations.Rules{}
	for x, row := range t {
		rules[x] = map[string]relations.Relation{}
		for y, r := range row {
			kind := relations.Cooperative
			if r.Assertive {
				kind = relations.Assertive
			}
			rules[x][y] = relations.Relation{Kind: kind, Allow: r.Allow}
		}
	}
	return rules
}
