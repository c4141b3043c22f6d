package model

import "math/rand/v2"

// relations lists the relations that the exhaustive search gives a pair.
var relations = []Relation{{}, {Cooperative, 0}, {Cooperative, 1}, {Assertive, 0}, {Assertive, 1}}

// tagNames are the tags of generated tables.
var tagNames = []Tag{"a", "b", "c", "d"}

// tableOf makes the table whose cells, row by row, have the given relations.
func tableOf(n int, cells []int) Table {
	t := Table{}
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

// twoTagTables lists every table of two tags, one for each pair of tables
// that differ in the tags' names only.
func twoTagTables() []Table {
	var tables []Table
	for aa := range relations {
		for ab := range relations {
			for ba := range relations {
				for bb := range relations {
					// Renamed, the table reads bb, ba, ab, aa.
					if bb*5+ba < aa*5+ab {
						continue
					}
					tables = append(tables, tableOf(2, []int{aa, ab, ba, bb}))
				}
			}
		}
	}
	return tables
}

// threeTagTables is a sample of the tables of three tags.
func threeTagTables(n int, seed uint64) []Table {
	rng := rand.New(rand.NewPCG(seed, 0))
	tables := make([]Table, n)
	for i := range tables {
		cells := make([]int, 9)
		for j := range cells {
			cells[j] = rng.IntN(len(relations))
		}
		tables[i] = tableOf(3, cells)
	}
	return tables
}
