package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind is the kind of a relation from one tag to another.
type Kind int

// The kinds of relations.
const (
	None        Kind = iota // ignores the other
	Cooperative             // the arrival is refused
	Assertive               // the arrival is never refused: it joins as a waiting entry
)

// Relation is one tag's relation to another tag, or to itself.
type Relation struct {
	Kind  Kind
	Allow int // the number of live entries of the other tag that are tolerated
}

// Rules gives each tag its relations. A tag without relations has an empty row;
// a tag without a row is unknown.
type Rules map[Tag]map[Tag]Relation

// Relation returns the relation of from to to.
func (t Rules) Relation(from, to Tag) Relation { return t[from][to] }

// Knows reports whether the tag has a row.
func (t Rules) Knows(tag Tag) bool { _, ok := t[tag]; return ok }

// Tags returns the known tags in the order of their names.
func (t Rules) Tags() []Tag { return slices.Sorted(maps.Keys(t)) }

// limit returns how many live entries of the other tag an entry of the tag
// tolerates, if it respects them at all. An unknown tag is not tolerated.
func (t Rules) limit(tag, other Tag) (allow int, respects bool) {
	if !t.Knows(other) {
		return 0, true
	}
	r := t.Relation(tag, other)
	return r.Allow, r.Kind != None
}

// String formats the rules in one line: "a: a coop, b assert 1; b:".
func (t Rules) String() string {
	var rows []string
	for _, from := range t.Tags() {
		var row []string
		for _, to := range t.Tags() {
			r := t.Relation(from, to)
			if r.Kind == None {
				continue
			}
			text := fmt.Sprintf("%s %s", to, [...]string{"", "coop", "assert"}[r.Kind])
			if r.Allow > 0 {
				text += fmt.Sprintf(" %d", r.Allow)
			}
			row = append(row, text)
		}
		rows = append(rows, fmt.Sprintf("%s: %s", from, strings.Join(row, ", ")))
	}
	return strings.Join(rows, "; ")
}
