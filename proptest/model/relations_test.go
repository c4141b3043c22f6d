package model

import "math/rand/v2"

// relations lists the relations that the exhaustive search gives a pair.
var relations = []Relation{{}, {Cooperative, 0}, {Cooperative, 1}, {Assertive, 0}, {Assertive, 1}}

var tagNames = []Tag{"a", "b", "c", "d"}

// rulesOf makes the rules whose relations, row by row, have these indexes.
func rulesOf(n int, cells []int) Rules {
	t := Rules{}
	for i := range n {
		t[tagNames[i]] = map[Tag]Relation{}
		for j := range n {
			if r := relations[cells[i*n+j]]; r.Kind != None {
				t[tagNames[i]][tagNames[j]] = r
			}
		}
	}
	return t
}

// twoTagRules lists all rules of two tags. Of rules that differ only in the
// tags' names it has one.
func twoTagRules() []Rules {
	var ruleSets []Rules
	for i := range 5 * 5 * 5 * 5 {
		cells := []int{i / 125, i / 25 % 5, i / 5 % 5, i % 5} // a to a, a to b, b to a, b to b
		if cells[3]*5+cells[2] >= cells[0]*5+cells[1] {       // and not only the same with the tags swapped
			ruleSets = append(ruleSets, rulesOf(2, cells))
		}
	}
	return ruleSets
}

// threeTagRules is a sample of the rules of three tags.
func threeTagRules(n int) []Rules {
	rng := rand.New(rand.NewPCG(1, 0))
	ruleSets := make([]Rules, n)
	for i := range ruleSets {
		cells := make([]int, 9)
		for j := range cells {
			cells[j] = rng.IntN(len(relations))
		}
		ruleSets[i] = rulesOf(3, cells)
	}
	return ruleSets
}
