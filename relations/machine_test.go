package relations

import "fmt"

// The abstract machine of the protocol: the effects of arrivals, confirms and
// releases, without their implementation. It shares no code with the analysis,
// which is checked against it.

const maxTags = 5

// table is Rules with numbers for tags.
type table struct {
	tags int
	rel  [maxTags][maxTags]Relation
}

// state is the content of the document. Held entries differ only by their tag;
// waiting ones are in the order of arrival.
type state struct {
	held    [maxTags]uint8
	waiting string // one byte, the tag's number, for each entry
}

// live counts the live entries of tag y; of the waiting ones only the first n
// count.
func (s state) live(y, n int) int {
	count := int(s.held[y])
	for i := range n {
		if int(s.waiting[i]) == y {
			count++
		}
	}
	return count
}

// blocks reports whether x's relation to y has an effect on an entry of x that
// arrived after the first n waiting entries.
func (t *table) blocks(s state, x, y, n int) bool {
	rel := t.rel[x][y]
	return rel.Kind != None && s.live(y, n) > rel.Allow
}

// blocked reports whether the waiting entry at position i can't be confirmed.
func (t *table) blocked(s state, i int) bool {
	for y := range t.tags {
		if t.blocks(s, int(s.waiting[i]), y, i) {
			return true
		}
	}
	return false
}

type verdict int

const (
	refused verdict = iota
	granted
	joined
)

// arrive returns the state after an arrival of x, and its verdict.
func (t *table) arrive(s state, x int) (state, verdict) {
	waits := false
	for y := range t.tags {
		if !t.blocks(s, x, y, len(s.waiting)) {
			continue
		}
		if t.rel[x][y].Kind == Cooperative {
			return s, refused
		}
		waits = true
	}
	if waits {
		s.waiting += string(rune(x))
		return s, joined
	}
	s.held[x]++
	return s, granted
}

// without returns s without its waiting entry i.
func (s state) without(i int) state {
	s.waiting = s.waiting[:i] + s.waiting[i+1:]
	return s
}

// rules is the table with names for tags: "a", "b", "c".
func (t *table) rules() Rules {
	r := Rules{}
	for x := range t.tags {
		row := map[string]Relation{}
		for y := range t.tags {
			if t.rel[x][y].Kind != None {
				row[name(y)] = t.rel[x][y]
			}
		}
		r[name(x)] = row
	}
	return r
}

// tableOf makes a table of rules, with the tags in the order of their numbers.
func tableOf(r Rules) (*table, []string) {
	tags := r.Tags()
	t := &table{tags: len(tags)}
	for x, from := range tags {
		for y, to := range tags {
			t.rel[x][y] = r[from][to]
		}
	}
	return t, tags
}

func name(tag int) string { return string(rune('a' + tag)) }

func number(tag string) int { return int(tag[0] - 'a') }

func (t *table) String() string { return fmt.Sprint(map[string]map[string]Relation(t.rules())) }
