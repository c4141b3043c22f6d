package fences

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// report has the covered part of a search, and the shortest trace to a violation.
type report struct {
	states, depth int
	complete      bool
	broken        violation
	trace         []string
}

func (r report) String() string {
	if r.broken.property == "" {
		return fmt.Sprintf("%d states to depth %d, complete: %v", r.states, r.depth, r.complete)
	}
	return fmt.Sprintf("%s: %s (%d states)\n  %s", r.broken.property, r.broken.detail, r.states, strings.Join(r.trace, "\n  "))
}

// search visits every interleaving, breadth first.
func search(cfg config, most int) (r report) {
	type visit struct {
		parent int32
		what   func() string
	}
	start := newWorld(&cfg)
	seen := map[uint64]struct{}{}
	seed := maphash.MakeSeed()
	visits := []visit{{-1, nil}}
	frontier, at := []world{start}, []int32{0}
	for len(frontier) > 0 {
		var next []world
		var nextAt []int32
		for i := range frontier {
			for _, s := range frontier[i].steps() {
				key := maphash.Comparable(seed, s.world)
				if _, known := seen[key]; known {
					continue
				}
				seen[key] = struct{}{}
				visits = append(visits, visit{at[i], s.what})
				if s.world.broken.property != "" {
					r.broken, r.states = s.world.broken, len(seen)
					for v := len(visits) - 1; v > 0; v = int(visits[v].parent) {
						r.trace = append(r.trace, visits[v].what())
					}
					slices.Reverse(r.trace)
					return r
				}
				next = append(next, s.world)
				nextAt = append(nextAt, int32(len(visits)-1))
			}
			if len(seen) > most {
				r.states = len(seen)
				return r
			}
		}
		frontier, at = next, nextAt
		r.depth++
	}
	r.states, r.complete = len(seen), true
	return r
}
