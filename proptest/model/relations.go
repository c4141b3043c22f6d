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
	Cooperative             // refused on arrival
	Assertive               // never refused: joins as a waiting entry
)

// Relation is what one tag says about another (or about itself).
type Relation struct {
	Kind  Kind
	Allow int // how many live entries of the other it tolerates
}

// Table gives each tag its relations. A tag without relations has an empty
// row: a tag with no row is unknown.
type Table map[Tag]map[Tag]Relation

// Relation returns what from says about to.
func (t Table) Relation(from, to Tag) Relation { return t[from][to] }

// Knows reports whether the tag has a row.
func (t Table) Knows(tag Tag) bool { _, ok := t[tag]; return ok }

// Tags returns the known tags in the order of their names.
func (t Table) Tags() []Tag { return slices.Sorted(maps.Keys(t)) }

// limit says how many live entries of the other tag an entry of the tag
// tolerates, if it respects them at all. An unknown tag is not tolerated.
func (t Table) limit(tag, other Tag) (allow int, respects bool) {
	if !t.Knows(other) {
		return 0, true
	}
	r := t.Relation(tag, other)
	return r.Allow, r.Kind != None
}

// String shows the table in one line: "a: a coop, b assert 1; b:".
func (t Table) String() string {
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
