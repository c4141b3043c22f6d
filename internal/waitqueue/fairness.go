package waitqueue

import (
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

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
		if img == nil || w.ID == released || w.state != asleep || !w.place.taken() && !w.Exact {
			return nil
		}
		if blocking, _ := d.inTheWay(w, img); len(blocking) == 0 && d.mayAsk(w, img) {
			d.run.handed++
			return w
		}
	}
	return nil
}
