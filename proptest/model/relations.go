package model

import (
	"fmt"
	"maps"
	"slices"
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

// String is "coop", or "assert 1".
func (r Relation) String() string {
	text := [...]string{"none", "coop", "assert"}[r.Kind]
	if r.Allow > 0 {
		text += fmt.Sprint(" ", r.Allow)
	}
	return text
}
