package waitqueue

import (
	"math/rand/v2"
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// Bounds of the pause between two polls.
const (
	shortestPause     = 2 * time.Millisecond
	unchangedPerPause = 8  // the pause is this fraction of the time for which nothing has changed,
	waitedPerPause    = 64 // and at least this one of the time waited
)

// Pause is how long to wait before the next poll. While nothing changes it
// grows with that time, so that the added delay stays a small fraction of the
// wait and the number of polls grows with the wait's logarithm, up to a low
// constant rate. If the lock often changes its holder, waiters ask more often.
// But many waiters wait longer, and each of them then asks less often, unless it
// has a place in the document queue. The pause is jittered, so that waiters that
// were refused together don't ask together again. It never goes past the moment
// when the lock becomes free by itself.
//
// longest bounds it, before the jitter. ahead is the number of entries before the waiter's in the document queue: only
// waiters near its head ask often.
func Pause(longest, waited, unchanged, free time.Duration, ahead int) time.Duration {
	d := min(max(unchanged/unchangedPerPause, waited/waitedPerPause, shortestPause), longest)
	d = (d/2 + rand.N(d)) * time.Duration(1+ahead)
	if free > 0 && free < d {
		return free + rand.N(shortestPause)
	}
	return d
}

// restAfter is how long a refused waiter does not ask again, unless an entry has left
// since. No pause is shorter. It grows while nothing changes, as the pauses do.
func (d *queue) restAfter(unchanged time.Duration) time.Duration {
	return min(max(unchanged/unchangedPerPause, shortestPause), d.longest) / 2
}

// unrested is the remaining part of a waiter's rest after it was refused.
func (d *queue) unrested(w *Waiter) time.Duration {
	if w.news != d.view.news {
		return 0
	}
	return max(0, w.rest-(d.clock()-w.asked))
}

// pause is how long a waiter sleeps unless something wakes it; negative is
// without end. The poller sleeps until one of the waiters that it polls for would
// ask. The other waiters only keep their places in the document. A nested one asks at
// once, and again by itself: whoever is before it may wait for its caller.
func (d *queue) pause(w *Waiter) time.Duration {
	if w.Nested && w.rest == 0 { // it was not refused yet
		return 0
	}
	if w != d.poller && !w.place.taken() && !w.Nested {
		return -1
	}
	if window := d.run.yields(); window > 0 {
		return max(window, d.unrested(w))
	}
	img := d.view.now()
	var ours *engine.Image
	if img != nil {
		ours = less(img, func(e engine.Entry) bool { return !d.view.mine(e) })
	}
	asked := d.clock() - w.asked
	interval := d.interval(w, asked, img, ours)
	if w == d.poller {
		for _, t := range d.tags {
			if head := t.first(); head != w && head.state == asleep && !head.place.taken() {
				interval = min(interval, d.interval(head, asked, img, ours))
			}
		}
	}
	if w.place.taken() {
		interval = min(interval, w.place.Confirm)
	}
	return max(0, interval-asked, d.unrested(w))
}

// interval is how long after its last question a waiter should ask again; asked
// is the time since then. If only entries of this process are in its way, they
// will be released here.
func (d *queue) interval(w *Waiter, asked time.Duration, img, ours *engine.Image) time.Duration {
	waited, unchanged := d.times(w)
	if img == nil {
		return Pause(d.longest, waited, unchanged, 0, 0)
	}
	if blocking, free := d.inTheWay(w, ours); len(blocking) > 0 && !w.Nested {
		return asked + free
	}
	blocking, free := d.inTheWay(w, img)
	if free > 0 {
		free += asked
	}
	ahead := 0
	for _, e := range blocking {
		if !e.Held() {
			ahead++
		}
	}
	return Pause(d.longest, waited, unchanged, free, ahead)
}

// times are how long a waiter has waited, and for how long nothing has changed.
// For a waiter with a place in the document only the changes count: its turn will
// come, however long that takes.
func (d *queue) times(w *Waiter) (waited, unchanged time.Duration) {
	waited = d.clock() - w.Begun
	if d.view.image == nil {
		return waited, waited
	}
	if w.place.taken() {
		waited = 0
	}
	return waited, max(d.clock()-d.view.changed, min(waited, unchangedPerPause*hotPause))
}
