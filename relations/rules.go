package relations

import (
	"fmt"
	"maps"
	"slices"
)

// Kind is the effect of live entries of another tag on an arriving lock. The
// words cooperative and assertive come from monglock.
type Kind uint8

// The kinds.
const (
	// None ignores the other tag: its entries have no effect.
	None Kind = iota

	// Cooperative refuses the arriving lock, without a trace, while more than
	// Allow live entries of the other tag are present, held or waiting.
	Cooperative

	// Assertive never refuses the arriving lock because of the other tag. The
	// lock joins as a waiting entry, which blocks tags that respect its tag. It
	// is granted when at most Allow live entries of the other tag are left that
	// are held, or earlier than it.
	Assertive
)

// Effect is what happens to a lock if there are more than Allow live entries of
// another tag.
type Effect uint8

// The effects.
const (
	Ignored Effect = iota // the lock is granted beside them
	Blocked               // the lock waits
	Refused               // the lock is refused, without a trace
)

// Arriving returns the effect on a lock that arrives.
func (k Kind) Arriving() Effect {
	switch k {
	case Cooperative:
		return Refused
	case Assertive:
		return Blocked
	}
	return Ignored
}

// Waiting returns the effect on a lock that waits already: Ignored or Blocked. Only
// entries that are held, or earlier than it, count.
func (k Kind) Waiting() Effect {
	if k == None {
		return Ignored
	}
	return Blocked
}

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

// Relation is one tag's relation to another. The zero Relation is none: ignore.
type Relation struct {
	Kind Kind

	// Allow is the number of live entries of the other tag that are tolerated:
	// the relation has an effect from Allow+1 entries on. It is from 0 to
	// MaxAllow, and 0 in a Relation of Kind None.
	Allow int
}

// String returns the kind, and the Allow if it isn't 0: "cooperative", "assertive,
// allow 2".
func (rel Relation) String() string {
	if rel.Allow == 0 {
		return rel.Kind.String()
	}
	return fmt.Sprintf("%v, allow %d", rel.Kind, rel.Allow)
}

// Rules are relations between tags: rules[x][y] is x's relation to y; x may be
// y. Every tag of the rules is a key of the outer map. A tag that ignores all
// tags maps to nil or to an empty map. An absent relation is none, so
// rules[x][y] may be read for any x and y.
type Rules map[string]map[string]Relation

// Clone returns a copy that shares no map with r. The clone of nil is nil.
func (r Rules) Clone() Rules {
	clone := maps.Clone(r)
	for tag, row := range clone {
		clone[tag] = maps.Clone(row)
	}
	return clone
}

// Tags returns the tags of the rules, sorted.
func (r Rules) Tags() []string {
	return slices.Sorted(maps.Keys(r))
}
