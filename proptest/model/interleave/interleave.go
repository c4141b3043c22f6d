// Package interleave searches every interleaving of a small world, breadth first.
package interleave

import (
	"fmt"
	"hash/maphash"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Violation is a property that does not hold; the zero value is none.
type Violation struct{ Property, Detail string }

func (v *Violation) Fail(property, format string, args ...any) {
	if v.Property == "" {
		*v = Violation{property, fmt.Sprintf(format, args...)}
	}
}

// Space is a world of states W, between which there are steps A.
type Space[W, A any] struct {
	Name  string
	Start W
	Next  func(*W) []A               // the steps that are possible
	Step  func(*W, A) (W, Violation) // what one of them leads to
	Tell  func(*W, A) string         // describes the step that led to a state
	Key   func(*W) uint64            // states with the same key behave alike
}

// Change is a step of a world that is compared as it is.
type Change[W any] struct {
	What func() string
	Make func(*W)
}

// Changes is the space of such a world. check checks it after each step.
func Changes[W comparable](name string, start W, next func(*W) []Change[W], check func(*W) Violation) Space[W, Change[W]] {
	seed := maphash.MakeSeed()
	return Space[W, Change[W]]{
		Name:  name,
		Start: start,
		Next:  next,
		Step:  func(w *W, c Change[W]) (W, Violation) { n := *w; c.Make(&n); return n, check(&n) },
		Tell:  func(_ *W, c Change[W]) string { return c.What() },
		Key:   func(w *W) uint64 { return maphash.Comparable(seed, *w) },
	}
}

// Report has the covered part of a search, and the shortest trace to a violation.
type Report struct {
	States   int
	Depth    int  // all states with up to this many steps were seen
	Complete bool // there are no others
	Broken   Violation
	Trace    []string
}

func (r Report) String() string {
	if r.Broken.Property == "" {
		return fmt.Sprintf("%d states to depth %d, complete: %v", r.States, r.Depth, r.Complete)
	}
	return fmt.Sprintf("%s: %s (%d states)\n  %s", r.Broken.Property, r.Broken.Detail, r.States, strings.Join(r.Trace, "\n  "))
}

// Search visits the states that follow the first one, down to a depth, or until it has seen most of them.
func (s Space[W, A]) Search(depth, most int) (r Report) {
	type visit struct {
		parent int32
		step   A
	}
	visits := []visit{{parent: -1}}
	seen := map[uint64]struct{}{s.Key(&s.Start): {}}
	frontier, at := []W{s.Start}, []int32{0}
	for ; r.Depth < depth && len(frontier) > 0; r.Depth++ {
		var states []W
		var indices []int32
		for i := range frontier {
			for _, a := range s.Next(&frontier[i]) {
				w, broken := s.Step(&frontier[i], a)
				if broken.Property != "" {
					steps := []A{a}
					for v := at[i]; v > 0; v = visits[v].parent {
						steps = append(steps, visits[v].step)
					}
					slices.Reverse(steps)
					r.States, r.Broken, r.Trace = len(seen), broken, s.Replay(steps)
					return r
				}
				key := s.Key(&w)
				if _, known := seen[key]; known {
					continue
				}
				seen[key] = struct{}{}
				visits = append(visits, visit{at[i], a})
				states = append(states, w)
				indices = append(indices, int32(len(visits)-1))
			}
			if len(seen) > most {
				r.States = len(seen)
				return r
			}
		}
		frontier, at = states, indices
	}
	r.States, r.Complete = len(seen), len(frontier) == 0
	return r
}

// Replay describes the steps of a path.
func (s Space[W, A]) Replay(steps []A) []string {
	w, lines := s.Start, []string{s.Name}
	for _, a := range steps {
		w, _ = s.Step(&w, a)
		lines = append(lines, s.Tell(&w, a))
	}
	return lines
}

// zero is a field that has its zero value, as %+v prints it.
var zero = regexp.MustCompile(`\w+:(?:0|false|\[\]|<nil>|\{\})?(?: |(\}))`)

// Terse describes a value for a trace: its fields but for those that have the zero value.
func Terse(value any) string {
	text, last := fmt.Sprintf("%+v", value), ""
	for text != last {
		last, text = text, zero.ReplaceAllString(text, "$1")
	}
	return strings.ReplaceAll(text, " }", "}")
}

// Proof says that DOCLOCK_MODEL asks for the proof, and Long for the long one. Else the tests take some seconds.
func Proof() bool { return os.Getenv("DOCLOCK_MODEL") != "" }
func Long() bool  { return os.Getenv("DOCLOCK_MODEL") == "long" }

// Pick returns the number of a test of some seconds, or that of the proof.
func Pick(seconds, proof int) int {
	if Proof() {
		return proof
	}
	return seconds
}

// Budget is Pick for how much is searched: the long proof searches five times as much.
func Budget(seconds, proof int) int {
	if Long() {
		return 5 * proof
	}
	return Pick(seconds, proof)
}

// Cover searches worlds, as many at once as there are processors. It fails on a violation, and logs what was covered.
func Cover(t *testing.T, searches []func() Report) {
	t.Helper()
	start := time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	complete, all, depth := 0, 0, 999
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, search := range searches {
		free <- struct{}{}
		wg.Go(func() {
			r := search()
			<-free
			mu.Lock()
			defer mu.Unlock()
			all, depth = all+r.States, min(depth, r.Depth)
			if r.Complete {
				complete++
			}
			if r.Broken.Property != "" {
				t.Errorf("broken: %v", r)
			}
		})
	}
	wg.Wait()
	t.Logf("%d worlds, %d of them completely, all others to depth %d at least; %d states in %v",
		len(searches), complete, depth, all, time.Since(start).Round(time.Millisecond)) // read by the proof
}
