package model

import "slices"

// Starves returns, by the protocol's formula, the tags that can overtake a
// waiting entry of tag x for ever.
//
// There is such a tag if and only if there is a chain of distinct tags x = y0,
// …, yk, each assertive to the next, and a tag z outside the chain that yk
// respects, so that n of each can be present together. n0 = 1; for every other
// tag n is one more than its predecessor allows. The yj wait for ever, as a
// queue; the z come and go, and block yk.
func Starves(t Rules, x Tag) []Tag {
	var by []Tag
	for _, z := range t.Tags() {
		if starvedBy(t, z, []Tag{x}, []int{1}) {
			by = append(by, z)
		}
	}
	return by
}

// starvedBy tries the chain as it is, and every chain that extends it.
func starvedBy(t Rules, z Tag, chain []Tag, counts []int) bool {
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
func overtakes(t Rules, z Tag, chain []Tag, counts []int) bool {
	k := len(chain) - 1
	last := t.Relation(chain[k], z)
	switch {
	case last.Kind == None:
		return false
	case last.Kind == Cooperative && !canBeBlocked(t, chain[k]):
		return false
	}
	for j, y := range chain {
		// The z come although this many y wait.
		if r := t.Relation(z, y); r.Kind != None && r.Allow < counts[j] {
			return false
		}
		// This many y can wait together.
		if r := t.Relation(y, y); r.Kind == Cooperative && counts[j] > r.Allow+1 {
			return false
		}
		// Each y can join behind those that do not block it.
		for m := j + 2; m <= k; m++ {
			if r := t.Relation(y, chain[m]); r.Kind == Cooperative && r.Allow < counts[m] {
				return false
			}
		}
	}
	// This many z can be present together.
	r := t.Relation(z, z)
	return r.Kind == None || r.Allow >= last.Allow
}

// canBeBlocked reports whether an assertive relation can block the tag: enough
// entries of the other tag can be present together.
func canBeBlocked(t Rules, tag Tag) bool {
	for _, other := range t.Tags() {
		r := t.Relation(tag, other)
		self := t.Relation(other, other)
		if r.Kind == Assertive && (self.Kind != Cooperative || self.Allow >= r.Allow) {
			return true
		}
	}
	return false
}

// StarvesRefused returns, by the protocol's formula, the tags that can cause a
// refusal of every arrival of tag x, for ever.
func StarvesRefused(t Rules, x Tag) []Tag {
	var by []Tag
	for _, y := range t.Tags() {
		r, self := t.Relation(x, y), t.Relation(y, y)
		if r.Kind == Cooperative && (self.Kind != Cooperative || self.Allow >= r.Allow) {
			by = append(by, y)
		}
	}
	return by
}
