package model

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock/proptest/model/interleave"
)

// What clocks may do, each in one way or two. The tolerance is 1, and each step is one of 1.
var clockFaults = []struct {
	what string
	ways [][]func(*config)
}{
	{"differ by the tolerance at most", [][]func(*config){{set, clocks(1, 0), stepping}, {set, clocks(0, 1), stepping}}},
	{"one steps back by more", [][]func(*config){{clocks(2), skewed, steppingTwice}}},
	{"one steps forward by more", [][]func(*config){{skewed, steppingTwice}}},
	{"two differ by more", [][]func(*config){{set, clocks(0, 2), skewed, routed}, {set, clocks(0, 2), skewed}}},
}

func skewed(cfg *config)        { cfg.skew = 2 }
func steppingTwice(cfg *config) { cfg.steps = 2 }

// promise is what the page says, with its properties. Of those that are named after a command and
// a word it has the words, for all commands.
type promise struct {
	what       string
	properties []string
}

var promises = []promise{
	{"no two valid leases exclude each other", []string{"validity"}},
	{"HoldAtLeast keeps others out for its time", []string{"kept"}},
	{"a guarded command finds its entry only if nobody was let in", []string{"presence", "last", "exclusion"}},
	{"an update is applied once, and its verdict is true", []string{"once"}},
	{"fencing tokens increase", []string{"fences"}},
	{"waiters are granted in order of arrival", []string{"queue"}},
	{"no entry stays that nobody holds or cleans up", []string{"leak"}},
	{"a release that returns nil kept others out", []string{"nil, too late"}},
	{"what is reported as lost, released or cleaned up is gone", []string{"nil", "lost", "taken", "not found", "no document", "nothing"}},
}

// TestClocks compares the lists of docs/protocol.md that say what holds if clocks differ by more than the tolerance. For
// each kind of clocks it searches the same worlds for a violation of each promise.
func TestClocks(t *testing.T) {
	worlds := []config{
		plain(exclusive, "aa", faulty(1)),
		plain(exclusive, "aa", faulty(1), saving, checking),
		plain(exclusive, "aa", keeping(4)),
		plain(queue, "aaa", faulty(1)),
		plain(exclusive, "aaa", tokens(2), saving),
		plain(writers, "ab", faulty(1), converting, saving),
	}
	fails := make([][]string, len(promises)) // by the clocks that break a promise
	for _, c := range clockFaults {
		for i := range brokenPromises(t, c.what, worlds, c.ways) {
			fails[i] = append(fails[i], c.what)
		}
	}
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(text)), " ")
	lists := map[string][]string{}
	for i, p := range promises {
		when := "always"
		if fails[i] != nil {
			when = "unless " + strings.Join(fails[i], ", or ")
		}
		lists[when] = append(lists[when], p.what)
	}
	for when, promised := range lists {
		if want := "- *" + when + "*: " + strings.Join(promised, "; "); !strings.Contains(page, want+" ") {
			t.Errorf("docs/protocol.md must have this line:\n%s", want)
		}
	}
	for _, c := range clockFaults {
		if !strings.Contains(page, c.what) {
			t.Errorf("docs/protocol.md doesn't say %q", c.what)
		}
	}
}

// brokenPromises are those of which the search finds a violation in a world with such clocks. It goes on with the
// others.
func brokenPromises(t *testing.T, what string, worlds []config, ways [][]func(*config)) map[int]bool {
	broken, states := map[int]bool{}, 0
	for i, world := range worlds {
		most := interleave.Budget(400, 30_000)
		if i == 0 {
			most = max(most, 6_000) // where the rows are broken
		}
		for _, way := range ways {
			cfg := with(world, way...)
			cfg.counts = func(property string) bool { i := rowOf(property); return i >= 0 && !broken[i] }
			for more := true; more; {
				r := explore(cfg, math.MaxInt, most)
				states += r.States
				if more = r.Broken.Property != ""; more {
					t.Logf("clocks: %s: %v", what, r)
					broken[rowOf(r.Broken.Property)] = true
				}
			}
		}
	}
	t.Logf("clocks: %s: %d states", what, states)
	return broken
}

// rowOf is the index of the promise that has the property.
func rowOf(property string) int {
	_, word, _ := strings.Cut(property, ": ")
	return slices.IndexFunc(promises, func(p promise) bool {
		return slices.Contains(p.properties, property) || slices.Contains(p.properties, word)
	})
}
