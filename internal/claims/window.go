package claims

import (
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/waitqueue"
)

// Bounds of a window.
const (
	fewest    = 16                     // candidates of a look-up
	widest    = 512                    // candidates among which one is chosen
	some      = 8                      // tries after one look-up, while other processes are met
	most      = 64                     // tries after one look-up, while none are
	fresh     = 100 * time.Millisecond // candidates that came earlier are dropped
	forgotten = 5 * time.Second        // without a collision for this long, there are no other processes
	growth    = 0.1                    // of the width by a collision
	shrinkage = growth / 4             // by a grant: so that a fifth of the tries collide
	unfitFor  = time.Minute            // a document that can't take the lock is not tried again
	mostUnfit = 64                     // of them are remembered
)

// window is what a queue knows of the documents that were free at the last
// look-up. It has no lock and no clock of its own.
//
// A try takes one of the first candidates, by chance. The width is the number of them
// that it chooses from: 1 while no other process is met, which is the exact order. A try
// of a document that another process has just taken is a collision. Collisions
// widen the window, and grants narrow it, so that one try in five collides, however
// many workers there are.
type window struct {
	rand func(n int) int // a random number below n

	left   []candidate   // not yet tried, in their order
	cut    bool          // some of the last look-up were dropped untried
	budget int           // how many of them may be tried before the next look-up
	looked time.Duration // when the look-up was sent
	until  time.Duration // when the candidates are too old

	tried map[string]struct{}      // candidates whose try is under way
	taken map[string]time.Duration // when a try was granted that the last look-up may have missed
	unfit map[string]time.Duration // until when a document that can't take the lock is passed over

	width   float64
	lastMet time.Duration // when the last collision was
}

// candidate is a document that was free.
type candidate struct {
	pin engine.Pin
	key string
}

func newWindow(rand func(n int) int) window {
	return window{
		rand: rand, width: 1, lastMet: -forgotten,
		tried: map[string]struct{}{}, taken: map[string]time.Duration{}, unfit: map[string]time.Duration{},
	}
}

// limit is how many candidates the next look-up is to return, for so many
// claimants.
func (w *window) limit(claimants int, now time.Duration) int {
	for key, until := range w.unfit {
		if until <= now {
			delete(w.unfit, key)
		}
	}
	switch {
	case !w.met(now):
		w.width = 1
	case claimants > 1: // a process that claims as much takes as many at a time
		w.width = max(w.width, float64(claimants))
	}
	return max(fewest, claimants, int(w.width)+some) + len(w.unfit)
}

// fill takes the documents that a look-up found, without those that this process
// is trying, or has taken since it was sent. all reports that it left out nothing but
// documents that this process knows to be locked or unfit; busy, that it found nothing
// but documents that this process is trying.
func (w *window) fill(found []engine.Pin, sent, now time.Duration) (all, busy bool) {
	w.left, w.cut, w.looked, w.until, w.budget = nil, false, sent, now+fresh, most
	if w.met(now) {
		w.budget = some
	}
	all = true
	for _, pin := range found {
		key := waitqueue.Key(pin)
		_, trying := w.tried[key]
		_, unfit := w.unfit[key]
		at, taken := w.taken[key]
		switch {
		case trying:
			all = false
		case !unfit && (!taken || at < sent):
			w.left = append(w.left, candidate{pin, key})
		}
	}
	for key, at := range w.taken {
		if at < sent {
			delete(w.taken, key)
		}
	}
	return all, !all && len(w.left) == 0
}

// take returns the next candidate.
func (w *window) take(now time.Duration) (c candidate, ok bool) {
	if w.budget == 0 || now > w.until {
		w.drop()
	}
	if len(w.left) == 0 {
		return candidate{}, false
	}
	i := 0
	if n := min(int(w.width), len(w.left)); n > 1 {
		i = w.rand(n)
	}
	c = w.left[i]
	w.left = slices.Delete(w.left, i, i+1)
	w.budget--
	w.tried[c.key] = struct{}{}
	return c, true
}

// settle notes how a try has ended.
func (w *window) settle(c candidate, outcome Outcome, now time.Duration) {
	delete(w.tried, c.key)
	switch outcome {
	case Granted:
		w.granted(c.key, now)
	case Refused, Missing:
		w.width, w.lastMet = min(w.width*(1+growth), widest), now
	case Unfit, LastUnfit:
		if len(w.unfit) == mostUnfit {
			clear(w.unfit)
		}
		w.unfit[c.key] = now + unfitFor
	}
}

// granted notes that a claim of this process has taken a document.
func (w *window) granted(key string, now time.Duration) {
	w.width = max(w.width*(1-shrinkage), 1)
	w.taken[key] = now
	w.left = slices.DeleteFunc(w.left, func(c candidate) bool { return c.key == key })
}

// met reports whether other processes claim the same documents.
func (w *window) met(now time.Duration) bool { return now-w.lastMet < forgotten }

// drop ends the use of the last look-up.
func (w *window) drop() {
	w.cut = w.cut || len(w.left) > 0
	w.left = nil
}
