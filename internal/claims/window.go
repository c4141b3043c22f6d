package claims

import (
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/waitqueue"
)

// Bounds of a window.
const (
	narrowest = 16              // candidates of a look-up while no other process is met
	widest    = 512             // and at most
	most      = 64              // tries after one look-up
	calm      = 4               // look-ups in a row without a collision, after which the window is narrowed
	fresh     = time.Second     // candidates that were looked up earlier are dropped
	forgotten = 5 * time.Second // without a collision for this long, there are no others
)

// window is what a queue knows of the documents that were free at the last
// look-up. It has no lock and no clock of its own.
//
// While no other process is met, a look-up returns the first documents, and they
// are tried in their order. Several processes would try the same ones. So a
// process that meets others widens its window and tries the candidates in a
// random order. Each other process takes some of them meanwhile. The first
// collision shows that the look-up is old, and ends its use. With P processes and
// W candidates that is after about the root of 2W/(P-1) tries: the number at which
// look-ups and collisions together cost least.
type window struct {
	rand func(n int) int // a random number below n

	left   []candidate   // not yet tried, in the order of the tries
	cut    bool          // some of the last look-up were dropped untried
	budget int           // how many of them may be tried before the next look-up
	looked time.Duration // when the look-up was sent

	tried   map[string]struct{}      // candidates whose try is under way
	settled map[string]time.Duration // when a try ended that the last look-up may have missed

	width   int           // how many candidates a look-up returns
	taken   int           // tries since the look-up that didn't collide
	met     bool          // one did
	calm    int           // look-ups in a row without a collision
	lastMet time.Duration // when the last collision was
}

// candidate is a document that was free.
type candidate struct {
	pin engine.Pin
	key string
}

func newWindow(rand func(n int) int) window {
	return window{rand: rand, width: narrowest, tried: map[string]struct{}{}, settled: map[string]time.Duration{}}
}

// limit is how many candidates the next look-up is to return, for so many
// claimants.
func (w *window) limit(claimants int, now time.Duration) int {
	w.adapt(now)
	return max(w.width, claimants)
}

// adapt chooses the width by how far the last look-up could be used.
func (w *window) adapt(now time.Duration) {
	switch {
	case w.met && w.taken < narrowest/4:
		w.resize(4 * w.width)
	case w.met && w.taken < narrowest:
		w.resize(2 * w.width)
	case now-w.lastMet > forgotten:
		w.resize(narrowest)
	case w.met:
		w.calm = 0
	case w.taken > 0:
		if w.calm++; w.calm == calm {
			w.resize(w.width / 2)
		}
	}
	w.taken, w.met = 0, false
}

func (w *window) resize(width int) { w.width, w.calm = min(max(width, narrowest), widest), 0 }

// fill takes the documents that a look-up found. It drops those that this
// process was trying when the look-up was sent, or has tried since: the look-up
// may not have seen the result. busy reports that only documents were found
// whose try is still under way.
func (w *window) fill(found []engine.Pin, sent time.Duration) (busy bool) {
	w.left, w.cut, w.looked, w.budget = nil, false, sent, most
	for _, pin := range found {
		key := waitqueue.Key(pin)
		_, trying := w.tried[key]
		at, done := w.settled[key]
		switch {
		case trying:
			busy = true
		case !done || at < sent:
			w.left = append(w.left, candidate{pin, key})
		}
	}
	for key, at := range w.settled {
		if at < sent {
			delete(w.settled, key)
		}
	}
	if w.width > narrowest {
		for i := range w.left {
			j := i + w.rand(len(w.left)-i)
			w.left[i], w.left[j] = w.left[j], w.left[i]
		}
	}
	return busy && len(w.left) == 0
}

// take returns the next candidate.
func (w *window) take(now time.Duration) (c candidate, ok bool) {
	if w.budget == 0 || now-w.looked > fresh {
		w.drop()
	}
	if len(w.left) == 0 {
		return candidate{}, false
	}
	c, w.left = w.left[0], w.left[1:]
	w.budget--
	w.tried[c.key] = struct{}{}
	return c, true
}

// settle notes that a try has ended. A collision is a try of a document that
// another process has locked or changed since the look-up.
func (w *window) settle(c candidate, collided bool, now time.Duration) {
	w.forget(c.key, now)
	if !collided {
		w.taken++
		return
	}
	w.met, w.lastMet = true, now
	w.drop()
}

// drop ends the use of the last look-up.
func (w *window) drop() {
	w.cut = w.cut || len(w.left) > 0
	w.left = nil
}

// forget drops a document that this process has tried.
func (w *window) forget(key string, now time.Duration) {
	delete(w.tried, key)
	w.settled[key] = now
	w.left = slices.DeleteFunc(w.left, func(c candidate) bool { return c.key == key })
}
