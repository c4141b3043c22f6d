package waitqueue

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
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

// Pauses of waiters that only something else wakes.
const (
	forEver       = math.MaxInt64 - 1
	untilAnswered = math.MaxInt64 // whatever ends
)

// pause is how long a waiter sleeps unless something wakes it. The poller sleeps until one of the waiters that it polls for would
// ask. The other waiters only keep their places in the document. A nested one asks at
// once, and again by itself: whoever is before it may wait for its caller.
func (d *queue) pause(w *Waiter) time.Duration {
	if w.Nested && w.rest == 0 { // it was not refused yet
		return 0
	}
	if w != d.poller && !w.place.isTaken() && !w.Nested {
		return forEver
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
			if head := t.first(); head != w && head.state == asleep && !head.place.isTaken() {
				interval = min(interval, d.interval(head, asked, img, ours))
			}
		}
	}
	if w.place.isTaken() {
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
	if w.place.isTaken() {
		waited = 0
	}
	return waited, max(d.clock()-d.view.changed, min(waited, unchangedPerPause*hotPause))
}

// The waiters of one process hand the lock to each other in a local run. After a
// run the lock is released, and in the yield window that follows the process does
// not ask. A refused acquire leaves no trace: only the window shows whether other
// processes want the lock. So it is as long as the pause of a poller of a hot
// lock. While no other process acquires the lock in the windows, runs grow. After
// another one has, runs are short and windows outlast them: the process that has
// waited longest comes next. The jitter keeps two processes from passing the lock
// between them alone.
const (
	longestRun   = 4096 // handoffs
	firstRun     = 40 * time.Millisecond
	loneRun      = 640 * time.Millisecond
	rivalRun     = 20 * time.Millisecond
	loneWindow   = 15 * time.Millisecond
	rivalWindow  = 20 * time.Millisecond
	windowJitter = 30 * time.Millisecond
	hotPause     = 12 * time.Millisecond
)

// localRun is how the lock goes from hand to hand in this process.
type localRun struct {
	clock  func() time.Duration
	asked  time.Duration // when the lock was last got by asking
	most   time.Duration // how long a run may take
	handed int           // handoffs so far
	first  time.Duration // when the first was
	spent  bool          // the run is over
	until  time.Duration // the end of the yield window after it
}

// begin begins a run. Its length depends on what was seen since the last one
// began: when other processes alone were seen to have the lock.
func (r *localRun) begin(rivals time.Duration) {
	if rivals > r.asked {
		r.most = rivalRun
	} else {
		r.most = min(2*r.most, loneRun)
	}
	r.asked, r.handed = r.clock(), 0
}

// goesOn says that one more handoff is allowed. Otherwise the run is over.
func (r *localRun) goesOn() bool {
	if r.handed == 0 {
		r.first = r.clock()
	}
	if r.handed == longestRun || r.clock()-r.first > r.most {
		r.handed, r.spent = 0, true
		return false
	}
	return true
}

// yield begins the window after a run that is over.
func (r *localRun) yield() {
	if !r.spent {
		return
	}
	r.spent = false
	window := loneWindow
	if r.most == rivalRun {
		window = rivalWindow + rand.N(windowJitter)
	}
	r.until = r.clock() + window
}

// yields is the remaining part of the window.
func (r *localRun) yields() time.Duration { return max(0, r.until-r.clock()) }

// successor is the first waiter that has a chance once the entry is released, if
// the run goes on. The document's own order is kept by the server. A waiter that was
// granted the entry itself, and couldn't take it, is about to leave: it is handed nothing,
// because an id serves one entry (rule 19).
func (d *queue) successor(released uuid.UUID) *Waiter {
	if !d.run.goesOn() {
		return nil
	}
	img := d.view.now()
	if img != nil {
		img = without(img, released)
	}
	for _, w := range d.heads() {
		if img == nil || w.ID == released || w.state != asleep || !w.Exact {
			return nil
		}
		if blocking, _ := d.inTheWay(w, img); len(blocking) == 0 && d.mayAsk(w, img) {
			d.run.handed++
			return w
		}
	}
	return nil
}
