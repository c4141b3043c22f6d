// Package interleave searches every interleaving of a small world, breadth first.
package interleave

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// Violation is a property that does not hold; the zero value is none.
type Violation struct{ Property, Detail string }

// Fail records the first violation.
func (v *Violation) Fail(property, format string, args ...any) {
	if v.Property == "" {
		*v = Violation{property, fmt.Sprintf(format, args...)}
	}
}

// Step is a next world, and what led to it.
type Step[W comparable] struct {
	World  W
	What   func() string
	Broken Violation
}

// Report has the covered part of a search, and the shortest trace to a violation.
type Report struct {
	States, Depth int
	Complete      bool
	Broken        Violation
	Trace         []string
}

func (r Report) String() string {
	if r.Broken.Property == "" {
		return fmt.Sprintf("%d states to depth %d, complete: %v", r.States, r.Depth, r.Complete)
	}
	return fmt.Sprintf("%s: %s (%d states)\n  %s", r.Broken.Property, r.Broken.Detail, r.States, strings.Join(r.Trace, "\n  "))
}

// Search visits the worlds that follow start, until it has seen most of them.
func Search[W comparable](start W, next func(W) []Step[W], most int) (r Report) {
	type visit struct {
		parent int32
		what   func() string
	}
	seen, seed := map[uint64]struct{}{}, maphash.MakeSeed()
	visits := []visit{{-1, nil}}
	frontier, at := []W{start}, []int32{0}
	for len(frontier) > 0 {
		var worlds []W
		var indices []int32
		for i := range frontier {
			for _, s := range next(frontier[i]) {
				key := maphash.Comparable(seed, s.World)
				if _, known := seen[key]; known && s.Broken.Property == "" {
					continue
				}
				seen[key] = struct{}{}
				visits = append(visits, visit{at[i], s.What})
				if s.Broken.Property != "" {
					r.Broken, r.States = s.Broken, len(seen)
					for v := len(visits) - 1; v > 0; v = int(visits[v].parent) {
						r.Trace = append(r.Trace, visits[v].what())
					}
					slices.Reverse(r.Trace)
					return r
				}
				worlds = append(worlds, s.World)
				indices = append(indices, int32(len(visits)-1))
			}
			if len(seen) > most {
				r.States = len(seen)
				return r
			}
		}
		frontier, at = worlds, indices
		r.Depth++
	}
	r.States, r.Complete = len(seen), true
	return r
}
