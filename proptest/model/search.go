package model

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// search visits every interleaving of a world, breadth first, down to a depth
// or to a number of states.
type search struct {
	cfg       config
	depth     int
	maxStates int // 0: no limit
}

// report has the covered part of a search, and the shortest trace to a
// violation.
type report struct {
	states   int
	depth    int  // all states with up to this many steps were seen
	complete bool // there are no others
	broken   *violation
	trace    []string
}

// String shows the violation with its trace.
func (r report) String() string {
	if r.broken == nil {
		return fmt.Sprintf("%d states to depth %d, no violation", r.states, r.depth)
	}
	return fmt.Sprintf("%v\n  %s", r.broken, strings.Join(r.trace, "\n  "))
}

// visit records how a state was reached, for the trace.
type visit struct {
	parent int32
	action action
}

func (s search) run() report {
	start := newWorld(&s.cfg)
	visits := []visit{{parent: -1}}
	var keys keyer
	seen := map[uint64]struct{}{keys.key(&start): {}}
	frontier, indices := []world{start}, []int32{0}
	r := report{}
	for r.depth = 0; r.depth < s.depth; r.depth++ {
		var next []world
		var nextIndices []int32
		for i, w := range frontier {
			for _, a := range w.actions() {
				n := w.step(a)
				if n.broken != nil {
					r.broken = n.broken
					r.trace = s.replay(append(path(visits, indices[i]), a))
					r.states = len(seen)
					return r
				}
				key := keys.key(&n)
				if _, known := seen[key]; known {
					continue
				}
				seen[key] = struct{}{}
				visits = append(visits, visit{indices[i], a})
				next = append(next, n)
				nextIndices = append(nextIndices, int32(len(visits)-1))
			}
			if s.maxStates > 0 && len(seen) > s.maxStates {
				r.states = len(seen)
				return r
			}
		}
		frontier, indices = next, nextIndices
		if len(frontier) == 0 {
			r.complete = true
			break
		}
	}
	r.states = len(seen)
	return r
}

// path is the actions that led to a visit.
func path(visits []visit, i int32) []action {
	if i <= 0 {
		return nil
	}
	return append(path(visits, visits[i].parent), visits[i].action)
}

// replay describes the steps of a path.
func (s search) replay(actions []action) []string {
	w := newWorld(&s.cfg)
	lines := []string{fmt.Sprintf("ruleSets %v, clients %v", s.cfg.ruleSets, s.cfg.tags)}
	for _, a := range actions {
		w = w.step(a)
		lines = append(lines, w.tell(a))
	}
	return lines
}

// runAll runs the searches, as many at once as there are processors.
func runAll(searches []search) []report {
	reports := make([]report, len(searches))
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, s := range searches {
		free <- struct{}{}
		wg.Go(func() {
			reports[i] = s.run()
			<-free
		})
	}
	wg.Wait()
	return reports
}
