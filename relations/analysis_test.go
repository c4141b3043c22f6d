package relations

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAsymmetriesAreOneSidedRelations(t *testing.T) {
	rules := Rules{
		"a": {"a": {Kind: Assertive}, "b": {Kind: Cooperative}, "c": {Kind: Assertive, Allow: 1}},
		"b": {"a": {Kind: Assertive}, "c": {}},
		"c": {"b": {Kind: Cooperative}},
	}
	want := []Asymmetry{{Tag: "a", IgnoredBy: "c"}, {Tag: "c", IgnoredBy: "b"}}
	if diff := cmp.Diff(want, rules.Asymmetries()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	const sentence = `"a" respects "c", but "c" ignores "a": a held "a" does not keep "c" out`
	if got := want[0].String(); got != sentence {
		t.Errorf("%s\nwant %s", got, sentence)
	}
}

func TestStarvations(t *testing.T) {
	for name, c := range map[string]struct {
		rules Rules
		want  []Starvation
	}{
		"who, by whom and how: a stream of b overtakes a, too, as a waits for b, which may take any time": {
			Rules{"a": {"b": {Kind: Assertive}, "c": {Kind: Cooperative}}, "b": {"c": {Kind: Assertive}}, "c": {}},
			[]Starvation{
				{Tag: "a", By: "b", Waiting: true, Path: []string{"a", "b"}},
				{Tag: "a", By: "c", Path: []string{"a", "c"}},
				{Tag: "a", By: "c", Waiting: true, Path: []string{"a", "c"}},
				{Tag: "b", By: "c", Waiting: true, Path: []string{"b", "c"}},
			},
		},
		"along a path": {
			Rules{"a": {"b": {Kind: Assertive}}, "b": {"a": {Kind: Assertive}, "c": {Kind: Assertive}}, "c": {}},
			[]Starvation{
				{Tag: "a", By: "c", Waiting: true, Path: []string{"a", "b", "c"}},
				{Tag: "b", By: "c", Waiting: true, Path: []string{"b", "c"}},
			},
		},
		"along a path with an entry that the first one tolerates": {
			Rules{"a": {"b": {Kind: Assertive}, "c": {Kind: Cooperative, Allow: 1}}, "b": {"c": {Kind: Assertive}}, "c": {"d": {Kind: Assertive}}, "d": {}},
			[]Starvation{
				{Tag: "a", By: "b", Waiting: true, Path: []string{"a", "b"}},
				{Tag: "a", By: "c", Path: []string{"a", "c"}},
				{Tag: "a", By: "c", Waiting: true, Path: []string{"a", "c"}},
				{Tag: "a", By: "d", Waiting: true, Path: []string{"a", "b", "c", "d"}},
				{Tag: "b", By: "c", Waiting: true, Path: []string{"b", "c"}},
				{Tag: "b", By: "d", Waiting: true, Path: []string{"b", "c", "d"}},
				{Tag: "c", By: "d", Waiting: true, Path: []string{"c", "d"}},
			},
		},
	} {
		if diff := cmp.Diff(c.want, c.rules.Starvations()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestStarvationString(t *testing.T) {
	for want, s := range map[string]Starvation{
		`"a" can be refused for ever: each time it asks, another "a" may be there`: {
			Tag: "a", By: "a", Path: []string{"a", "a"}},
		`"a" can wait for ever: it waits for "b", which is let in past it`: {
			Tag: "a", By: "b", Waiting: true, Path: []string{"a", "b"}},
		`"a" can wait for ever: it waits for "b", which waits for "c", which is let in past them all`: {
			Tag: "a", By: "c", Waiting: true, Path: []string{"a", "b", "c"}},
	} {
		if got := s.String(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

var more = flag.Int("more", 1, "how many times as many tables the searches draw; more than one, and they compare all small tables, too")

// The analysis finds what a search of the states finds that locks can reach. The search
// bounds the live entries of each tag by a limit. It then sees every starvation of rules
// whose allows are at most limit-2: allow+1 entries block, and one more waits or overtakes.
func TestStarvationsAreThoseOfTheSearch(t *testing.T) {
	for name, search := range map[string]func(sum *tally, t *testing.T){
		"two-tag tables": func(sum *tally, t *testing.T) {
			number := func(x, y Relation) int { return (int(x.Kind)*3+x.Allow)*9 + int(y.Kind)*3 + y.Allow }
			allTables(2, upToAllow(2), func(tab *table) {
				if number(tab.rel[0][0], tab.rel[0][1]) <= number(tab.rel[1][1], tab.rel[1][0]) && sum.next() { // the first of two that differ only in the tags' names
					sum.compare(t, tab, 4)
				}
			})
		},
		"three-tag tables without allow": func(sum *tally, t *testing.T) {
			allTables(3, upToAllow(0), func(tab *table) {
				if tab.isFirstOfItsPermutations() && sum.next() {
					sum.compare(t, tab, 2)
				}
			})
		},
		"some three-tag tables": func(sum *tally, t *testing.T) {
			random, relations := rand.New(rand.NewPCG(1, 2)), upToAllow(1)
			for range 40 * *more {
				sum.compare(t, drawn(3, random, relations), 3)
			}
		},
		// It takes four tags to make a chain of three waiting entries of which the
		// first may be refused because of the last. Such chains are rare, so the drawn
		// rules favour them.
		"some four-tag tables": func(sum *tally, t *testing.T) {
			random, relations := rand.New(rand.NewPCG(3, 4)), upToAllow(0)
			for range 40 * *more {
				tab := drawn(4, random, relations)
				for x := range 3 {
					tab.rel[x][x+1] = Relation{Kind: Assertive}
				}
				for y := range 4 {
					if random.IntN(4) > 0 {
						tab.rel[3][y] = Relation{}
					}
				}
				sum.compare(t, tab, 2)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sum tally
			search(&sum, t)
			t.Logf("%+v", sum)
		})
	}
}

// drawn has a random one of the relations in each cell.
func drawn(tags int, random *rand.Rand, relations []Relation) *table {
	tab := &table{tags: tags}
	for x := range tags {
		for y := range tags {
			tab.rel[x][y] = relations[random.IntN(len(relations))]
		}
	}
	return tab
}

// tally counts the comparisons.
type tally struct {
	met, tables, states, refusals, overtakings, longPaths int
}

// next is whether the next of all tables is compared: in the short form every fourth.
func (sum *tally) next() bool {
	sum.met++
	return *more > 1 || sum.met%4 == 0
}

// compare checks that the analysis and the search agree for these rules: which
// tag can be refused or overtaken, by which other tag, and along which path.
func (sum *tally) compare(t *testing.T, tab *table, limit int) {
	t.Helper()
	g := tab.explore(limit)
	anybody := 1<<tab.tags - 1
	bys := []int{anybody}
	for z := range tab.tags {
		bys = append(bys, 1<<z)
	}
	searched := g.starvations(bys)
	overtaken := func(x, by int) bool {
		for s := range searched {
			if s.tag == x && s.by == by {
				return true
			}
		}
		return false
	}

	type pair struct{ x, z int }
	refusals, overtakings, starves := map[pair]bool{}, map[pair]bool{}, map[int]bool{}
	for _, s := range tab.rules().Starvations() {
		p := pair{number(s.Tag), number(s.By)}
		if !s.Waiting {
			refusals[p] = true
			sum.refusals++
			continue
		}
		overtakings[p] = true
		starves[p.x] = true
		sum.overtakings++
		if len(s.Path) > 2 {
			sum.longPaths++
		}
		among := 0
		for _, tag := range s.Path[:len(s.Path)-1] {
			among |= 1 << number(tag)
		}
		if !searched[starving{tag: p.x, by: 1 << p.z, among: among}] {
			t.Errorf("%v: %v; the search does not find the path %v", tab, s, s.Path)
		}
	}
	for x := range tab.tags {
		if got, want := starves[x], overtaken(x, anybody); got != want {
			t.Errorf("%v: %s overtaken for ever: analysis %v, search %v", tab, name(x), got, want)
		}
		for z := range tab.tags {
			if got, want := overtakings[pair{x, z}], overtaken(x, 1<<z); got != want {
				t.Errorf("%v: %s overtaken for ever by %s: analysis %v, search %v", tab, name(x), name(z), got, want)
			}
			if got, want := refusals[pair{x, z}], g.refuses(x, z); got != want {
				t.Errorf("%v: %s refused for ever by %s: analysis %v, search %v", tab, name(x), name(z), got, want)
			}
		}
	}
	sum.tables++
	sum.states += len(g.states)
}

// upToAllow returns all relations whose allow is at most n.
func upToAllow(n int) []Relation {
	relations := []Relation{{}}
	for allow := range n + 1 {
		relations = append(relations, Relation{Cooperative, allow}, Relation{Assertive, allow})
	}
	return relations
}

// allTables calls do with every set of rules of that many tags and these
// relations.
func allTables(tags int, relations []Relation, do func(*table)) {
	var fill func(t *table, cell int)
	fill = func(t *table, cell int) {
		if cell == tags*tags {
			do(t)
			return
		}
		for _, rel := range relations {
			t.rel[cell/tags][cell%tags] = rel
			fill(t, cell+1)
		}
	}
	fill(&table{tags: tags}, 0)
}

// isFirstOfItsPermutations is true for one of the tables that differ only in
// the names of three tags.
func (t *table) isFirstOfItsPermutations() bool {
	for _, p := range [][3]int{{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
	compare:
		for x := range 3 {
			for y := range 3 {
				switch mine, other := t.rel[x][y].Kind, t.rel[p[x]][p[y]].Kind; {
				case mine < other:
					break compare
				case mine > other:
					return false
				}
			}
		}
	}
	return true
}
