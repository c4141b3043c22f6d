package relations

import (
	"fmt"
	"maps"
	"slices"
)

// Kind says what an arriving lock does when it meets live entries of another
// tag. The two words, cooperative and assertive, are monglock's.
type Kind uint8

const (
	// None ignores the other tag: its entries neither refuse nor delay.
	None Kind = iota

	// Cooperative gives way: the arriving lock is refused, and leaves no
	// trace, while more than Allow live entries of the other tag are there,
	// held or waiting.
	Cooperative

	// Assertive insists: the arriving lock is never refused for the other
	// tag. It joins as a waiting entry, which keeps back whoever respects its
	// tag, and is granted once at most Allow live entries of the other tag
	// remain that are held, or earlier than it.
	Assertive
)

// String returns "none", "cooperative" or "assertive", and "Kind(7)" for a
// number that is no Kind.
func (k Kind) String() string {
	switch k {
	case None:
		return "none"
	case Cooperative:
		return "cooperative"
	case Assertive:
		return "assertive"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Relation is how one tag treats another. The zero Relation is none: ignore.
type Relation struct {
	Kind Kind

	// Allow is the number of live entries of the other tag that are
	// tolerated: the relation has an effect from Allow+1 entries on. It is
	// from 0 to MaxAllow, and 0 in a Relation of Kind None.
	Allow int
}

// String returns the kind, and the allow where it isn't 0: "cooperative",
// "assertive, allow 2".
func (rel Relation) String() string {
	if rel.Allow == 0 {
		return rel.Kind.String()
	}
	return fmt.Sprintf("%v, allow %d", rel.Kind, rel.Allow)
}

// Rules is the table of relations: rules[x][y] is x's relation to y, x itself
// included. Every tag of the table is a key of the outer map; a tag that
// ignores all others maps to nil or to an empty map. A relation that is absent
// is none, so rules[x][y] may be read for any x and y.
type Rules map[string]map[string]Relation

// Clone returns a copy that shares no map with r. The clone of nil is nil.
func (r Rules) Clone() Rules {
	clone := maps.Clone(r)
	for tag, row := range clone {
		clone[tag] = maps.Clone(row)
	}
	return clone
}

// Tags returns the tags of the table, sorted.
func (r Rules) Tags() []string {
	return slices.Sorted(maps.Keys(r))
}
