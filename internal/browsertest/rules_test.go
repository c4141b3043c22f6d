package browsertest

import (
	"encoding/json"
	"fmt"
	"go/format"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// arrival is one of the page's example, which asks from a tick on and holds the lock
// for some.
type arrival struct {
	Tag  string `json:"tag"`
	At   int    `json:"at"`
	Hold int    `json:"hold"`
}

// sample is rules in the form of the JSON table, faults included, and an example.
type sample struct {
	Table    map[string]map[string][]any `json:"table"`
	Arrivals []arrival                   `json:"arrivals"`
	rules    relations.Rules
}

// said is what the page says of a sample.
type said struct {
	Faults, Findings []string
	Go, JSON         string
	Played           [][]string
}

// The page finds what the library finds, and its example ends as the commands of the
// library end. What it gives to copy is the table.
func (p rulesTab) agrees() {
	random := rand.New(rand.NewPCG(1, 2))
	samples := make([]sample, 400)
	for i := range samples {
		samples[i] = draw(random)
	}
	text, err := json.Marshal(samples)
	if err != nil {
		p.Fatal(err)
	}
	var answers []said
	p.do(chromedp.Evaluate(fmt.Sprintf(`JSON.parse(%q).map(({table, arrivals}) => {
		const rules = parsed(table), wrong = faults(rules);
		return wrong.length > 0 ? {faults: wrong} : {
			findings: findings(rules), go: goCode(rules), json: jsonTable(rules), played: play(rules, arrivals)};
	})`, text), &answers))

	var valid []relations.Rules
	var code strings.Builder
	outcomes := map[string]int{}
	for i, s := range samples {
		got := answers[i]
		if err := s.rules.Validate(); err != nil {
			if want := relations.ErrInvalidRules.Error() + ": " + strings.Join(got.Faults, "; "); err.Error() != want {
				p.Errorf("%v: the page says\n%s\nthe library\n%v", s.rules, want, err)
			}
			outcomes["faults"]++
			continue
		}
		if diff := cmp.Diff(findings(s.rules), got.Findings); diff != "" || got.Faults != nil {
			p.Errorf("%v: faults %v, findings (-library +page):\n%s", s.rules, got.Faults, diff)
		}
		if diff := cmp.Diff(played(p.T, s), got.Played); diff != "" {
			p.Errorf("%v, %v (-library +page):\n%s", s.rules, s.Arrivals, diff)
		}
		var back relations.Rules
		if err := json.Unmarshal([]byte(got.JSON), &back); err != nil || !cmp.Equal(back, s.rules) {
			p.Errorf("%v as JSON: %v, %s", s.rules, err, got.JSON)
		}
		valid = append(valid, s.rules)
		fmt.Fprintf(&code, "\n{\n%sall = append(all, rules)\n}\n", got.Go)
		if form, err := format.Source([]byte(got.Go)); err != nil || string(form) != got.Go {
			p.Errorf("the Go code is not in gofmt's form (%v):\n%s", err, got.Go)
		}
		outcomes["findings"] += len(got.Findings)
		for _, states := range got.Played {
			for _, state := range states {
				outcomes[state]++
			}
		}
	}
	if diff := cmp.Diff(valid, evaluated(p.T, code.String())); diff != "" {
		p.Errorf("the Go code (-rules +code):\n%s", diff)
	}
	p.Log(len(valid), outcomes)
	for _, what := range []string{"faults", "findings", "refused", "waits", "held", "gone"} {
		if outcomes[what] < 50 {
			p.Errorf("the samples show %q only %d times", what, outcomes[what])
		}
	}
}

// draw draws rules, of which some have faults, and an example.
func draw(random *rand.Rand) sample {
	names := []string{"read", "write", "a", "10", "9", "__proto__", "constructor", "Z-_"}
	if random.IntN(12) == 0 {
		names = []string{"a b", "", `"<`, strings.Repeat("x", 65), "a"}
	}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	tags := names[:1+random.IntN(5)]
	allows := []int{0, 0, 0, 0, 1, 2}
	if random.IntN(12) == 0 {
		allows = append(allows, -1, 10_000, 10_001)
	}
	s := sample{Table: map[string]map[string][]any{}, rules: relations.Rules{}}
	for _, x := range tags {
		s.Table[x], s.rules[x] = map[string][]any{}, map[string]relations.Relation{}
		for _, y := range tags {
			kind, allow := relations.Kind(random.IntN(3)), allows[random.IntN(len(allows))]
			switch {
			case kind == relations.None:
				continue
			case allow == 0:
				s.Table[x][kind.String()] = append(s.Table[x][kind.String()], y)
			default:
				s.Table[x][kind.String()] = append(s.Table[x][kind.String()], map[string]any{"tag": y, "allow": allow})
			}
			s.rules[x][y] = relations.Relation{Kind: kind, Allow: allow}
		}
	}
	for range 3 + random.IntN(6) {
		s.Arrivals = append(s.Arrivals, arrival{Tag: tags[random.IntN(len(tags))], At: random.IntN(8), Hold: 1 + random.IntN(6)})
	}
	return s
}

// findings are those of doclock rules.
func findings(rules relations.Rules) []string {
	found := []string{}
	for _, s := range rules.Starvations() {
		found = append(found, "starvation: "+s.String())
	}
	for _, a := range rules.Asymmetries() {
		found = append(found, "asymmetry: "+a.String())
	}
	return found
}

// played plays the example by the commands of the library, on a server in memory.
func played(t *testing.T, s sample) [][]string {
	t.Helper()
	const ticks = 30
	coll, err := locktest.New().Collection("docs", bson.M{"_id": 1})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(coll, s.rules, engine.Config{Terms: engine.Terms{TTL: engine.DefaultTTL * 1000}, WaitTTL: engine.DefaultTTL * 1000, Field: engine.DefaultField})
	if err != nil {
		t.Fatal(err)
	}
	filter, err := e.ParseFilter(bson.M{"_id": 1})
	if err != nil {
		t.Fatal(err)
	}
	type lock struct {
		arrival
		id    uuid.UUID
		state string
		since int
	}
	var locks []*lock
	for _, a := range s.Arrivals {
		locks = append(locks, &lock{arrival: a, id: uuid.New()})
	}
	seen := make([][]string, len(locks))
	var queue []*lock
	answered := func(l *lock, tick int, a engine.Answer, err error) {
		if err != nil {
			t.Fatal(err)
		}
		l.state = map[engine.Outcome]string{engine.Granted: "held", engine.Waiting: "waits", engine.Conflict: "refused"}[a.Outcome]
		l.since = tick
	}
	for tick := range ticks {
		for _, l := range locks {
			if l.state == "held" && tick >= l.since+l.Hold {
				if removed, err := e.Remove(t.Context(), filter.Pin, l.Tag, []uuid.UUID{l.id}); err != nil || len(removed) != 1 {
					t.Fatal(removed, err)
				}
				l.state = "gone"
			}
		}
		for _, l := range queue {
			a, err := e.Confirm(t.Context(), filter.Pin, engine.Request{Tag: l.Tag, ID: l.id})
			answered(l, tick, a, err)
		}
		queue = slices.DeleteFunc(queue, func(l *lock) bool { return l.state != "waits" })
		for i, l := range locks {
			if l.state == "refused" || l.state == "" && l.At <= tick {
				a, err := e.Acquire(t.Context(), filter, engine.Request{Tag: l.Tag, ID: l.id})
				answered(l, tick, a, err)
				if l.state == "waits" {
					queue = append(queue, l)
				}
			}
			seen[i] = append(seen[i], l.state)
		}
	}
	return seen
}

// evaluated runs Go code that appends rules to all.
func evaluated(t *testing.T, code string) (all []relations.Rules) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	program := fmt.Sprintf("package main\nimport (\n\"encoding/json\"\n\"os\"\n\"github.com/doclock/doclock/relations\"\n)\nfunc main() {\nvar all []relations.Rules\n%sjson.NewEncoder(os.Stdout).Encode(all)\n}\n", code)
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "go", "run", file)
	run.Stderr = os.Stderr
	out, err := run.Output()
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}
