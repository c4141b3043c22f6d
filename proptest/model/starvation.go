package model

import "slices"

// Starves reports, by the protocol's formula, whether a waiting entry of tag
// x can be overtaken for ever, and by which tags.
//
// It can iff there is a chain of distinct tags x = y0, …, yk, each assertive
// to the next, and a tag z outside the chain that yk respects, so that n of
// each can be there together: n0 = 1, and one more than its predecessor
// allows of every other. The yj wait for ever, as a queue; the z come and go,
// and keep yk waiting.
func Starves(t Table, x Tag) []Tag {
	var by []Tag
	for _, z := range t.Tags() {
		if starvedBy(t, z, []Tag{x}, []int{1}) {
			by = append(by, z)
		}
	}
	return by
}

// starvedBy tries the chain as it is, and every chain that goes on from it.
func starvedBy(t Table, z Tag, chain []Tag, counts []int) bool {
	if slices.Contains(chain, z) {
		return false
	}
	if overtakes(t, z, chain, counts) {
		return true
	}
	last := chain[len(chain)-1]
	for _, next := range t.Tags() {
		r := t.Relation(last, next)
		if r.Kind != Assertive || slices.Contains(chain, next) {
			continue
		}
		longer := append(append([]Tag{}, chain...), next)
		if starvedBy(t, z, longer, append(append([]int{}, counts...), r.Allow+1)) {
			return true
		}
	}
	return false
}

// overtakes is the formula's condition for one chain and one z.
func overtakes(t Table, z Tag, chain []Tag, counts []int) bool {
	k := len(chain) - 1
	last := t.Relation(chain[k], z)
	switch {
	case last.Kind == None:
		return false
	case last.Kind == Cooperative && !canBeBlocked(t, chain[k]):
		return false
	}
	for j, y := range chain {
		// The z come although so many y wait.
		if r := t.Relation(z, y); r.Kind != None && r.Allow < counts[j] {
			return false
		}
		// So many y can wait together.
		if r := t.Relation(y, y); r.Kind == Cooperative && counts[j] > r.Allow+1 {
			return false
		}
		// Each y can join behind those that it doesn't wait for.
		for m := j + 2; m <= k; m++ {
			if r := t.Relation(y, chain[m]); r.Kind == Cooperative && r.Allow < counts[m] {
				return false
			}
		}
	}
	// So many z can be there together.
	r := t.Relation(z, z)
	return r.Kind == None || r.Allow >= last.Allow
}

// canBeBlocked reports whether an assertive relation of the tag can make it
// wait: enough entries of the other tag can be there together.
func canBeBlocked(t Table, tag Tag) bool {
	for _, other := range t.Tags() {
		r := t.Relation(tag, other)
		self := t.Relation(other, other)
		if r.Kind == Assertive && (self.Kind != Cooperative || self.Allow >= r.Allow) {
			return true
		}
	}
	return false
}

// StarvesRefused reports, by the protocol's formula, which tags can have
// every arrival of tag x refused, for ever.
func StarvesRefused(t Table, x Tag) []Tag {
	var by []Tag
	for _, y := range t.Tags() {
		r, self := t.Relation(x, y), t.Relation(y, y)
		if r.Kind == Cooperative && (self.Kind != Cooperative || self.Allow >= r.Allow) {
			by = append(by, y)
		}
	}
	return by
}
