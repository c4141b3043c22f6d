package model

import (
	"fmt"
	"maps"
	"slices"
)

// Kind is the kind of a relation from one tag to another.
type Kind int

const (
	None        Kind = iota // ignores the other
	Cooperative             // the arrival is refused
	Assertive               // the arrival is never refused: it joins as a waiting entry
)

type Relation struct {
	Kind  Kind
	Allow int // the number of live entries of the other tag that are tolerated
}

// Rules gives each tag its relations. A tag without relations has an empty row;
// a tag without a row is unknown.
type Rules map[Tag]map[Tag]Relation

func (t Rules) Relation(from, to Tag) Relation { return t[from][to] }

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

// arrival decides on a new entry of the tag: refused by a cooperative relation
// or by an unknown tag, or blocked by an assertive relation. Every live entry
// counts, held or waiting.
func (p Protocol) arrival(d *Document, t Rules, tag Tag, now int64) (refused, blocked bool) {
	refused, blocked, unknown := d.beside(t, tag, func(e Entry) bool { return e.Live(now) })
	return refused || unknown && !p.Without.UnknownRefuses, blocked
}

// passes decides on an entry of the tag that takes the place of another one: it is judged beside held entries only, so
// waiting ones stay behind it.
func (p Protocol) passes(d *Document, t Rules, tag Tag, now int64) bool {
	cooperative, assertive, unknown := d.beside(t, tag, func(e Entry) bool { return e.Live(now) && (e.Held() || p.Without.BesideHeld) })
	return !cooperative && !assertive && !unknown
}

// blocked decides on the waiting entry own of the tag. Both kinds of relation,
// and unknown tags, block it, but only for live entries that are held or came
// before it.
func (p Protocol) blocked(d *Document, t Rules, tag Tag, own Entry, now int64) bool {
	cooperative, assertive, unknown := d.beside(t, tag, func(e Entry) bool {
		return e.ID != own.ID && e.Live(now) && (e.Held() || e.Seq < own.Seq || p.Without.HeldOrEarlier)
	})
	return assertive || cooperative && !p.Without.CooperativeBlocks || unknown && !p.Without.UnknownBlocks
}

// beside reports which kinds of relation of the tag do not tolerate the entries that count, and whether some of them
// are of unknown tags.
func (d *Document) beside(t Rules, tag Tag, counts func(Entry) bool) (cooperative, assertive, unknown bool) {
	for _, b := range d.Lock.Tags {
		n := 0
		for _, e := range b.Entries {
			if counts(e) {
				n++
			}
		}
		allow, respects := t.limit(tag, b.Tag)
		kind := t.Relation(tag, b.Tag).Kind
		switch {
		case !respects || n <= allow:
		case !t.Knows(b.Tag):
			unknown = true
		case kind == Cooperative:
			cooperative = true
		case kind == Assertive:
			assertive = true
		}
	}
	return cooperative, assertive, unknown
}

// prune drops the expired entries of all tags, and then the empty arrays.
func (p Protocol) prune(d *Document, now int64) {
	if p.Without.Pruning {
		return
	}
	for i := range d.Lock.Tags {
		b := &d.Lock.Tags[i]
		b.Entries = slices.DeleteFunc(b.Entries, func(e Entry) bool { return !e.Live(now) })
	}
	d.Lock.Tags = slices.DeleteFunc(d.Lock.Tags, func(b Bucket) bool { return len(b.Entries) == 0 })
}

// next is the next value to give out, as a seq or as a fencing token.
func (d *Document) next(now int64) int64 { return max(d.Lock.Fence+1, now) }

// Exhausted reports whether the next fence can't be given out: the clock is not after 1970, or the number would not be
// exact in every type.
func (d *Document) Exhausted(now int64) bool { return now <= 0 || d.next(now) >= 1<<53 }

// extend moves the entry's expiry to its terms from now, and never back. An
// entry that keeps others out for longer also lives for longer.
func (p Protocol) extend(e *Entry, r Request, now int64) {
	ttl := r.WaitTTL
	if e.Held() {
		ttl = r.TTL
	}
	end := max(now+ttl+r.Tolerance, e.Until)
	if end > e.Expires || p.Without.Maximum {
		e.Expires = end
	}
}
