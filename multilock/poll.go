package multilock

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// ask lets a waiter ask the server, and nothing else does. Whatever the picture
// says, who was refused asks again after a rest, or when something has made way
// since.
func (l *line) ask(w *waiter) bool {
	if w.state != asleep || l.unrested(w) > 0 {
		return false
	}
	l.set(w, asking)
	w.sent, w.news = time.Now(), l.picture.news
	return true
}

// unrested is what is left of a waiter's rest after it was refused.
func (l *line) unrested(w *waiter) time.Duration {
	if w.news != l.picture.news {
		return 0
	}
	return max(0, w.rest-time.Since(w.asked))
}

// refused has a waiter rest, and the poller ask for it. What has made way while
// it asked may have done so after the refusal.
func (l *line) refused(w *waiter, img *engine.Image) {
	l.stirred = l.stirred || w != l.poller
	news := l.picture.news
	l.see(img, w.sent)
	if w.news == news {
		w.news = l.picture.news
	}
	_, unchanged := l.times(w)
	w.rest = rest(unchanged)
	if img := l.picture.now(); img != nil {
		if _, free := l.inTheWay(w, img); free > 0 {
			w.rest = min(w.rest, free)
		}
	}
}

// pause is how long a waiter sleeps unless it is nudged, without end if
// negative. The poller sleeps for as long as none of those that it polls for
// would ask; others than the poller keep their places in the document only.
func (l *line) pause(w *waiter) time.Duration {
	if w != l.poller && w.ticket == nil {
		return -1
	}
	if gap := time.Until(l.gap); gap > 0 {
		return max(gap, l.unrested(w))
	}
	img := l.picture.now()
	var ours *engine.Image
	if img != nil {
		ours = less(img, func(e engine.Entry) bool { return !l.picture.mine(e) })
	}
	asked := time.Since(w.asked)
	d := l.interval(w, asked, img, ours)
	if w == l.poller {
		for _, t := range l.tags {
			if head := t.first(); head != w && head.state == asleep && head.ticket == nil {
				d = min(d, l.interval(head, asked, img, ours))
			}
		}
	}
	return max(w.remaining(d), l.unrested(w))
}

// interval is how long after the last question, which was asked that time ago,
// it is worth asking again for a waiter. As long as the entries of this process
// alone are in its way, they will be given back here.
func (l *line) interval(w *waiter, asked time.Duration, img, ours *engine.Image) time.Duration {
	waited, unchanged := l.times(w)
	if img == nil {
		return pause(waited, unchanged, 0, 0)
	}
	if blocking, free := l.inTheWay(w, ours); len(blocking) > 0 {
		return asked + free
	}
	blocking, free := l.inTheWay(w, img)
	if free > 0 {
		free += asked
	}
	ahead := 0
	for _, e := range blocking {
		if !e.Held() {
			ahead++
		}
	}
	return pause(waited, unchanged, free, ahead)
}

// times are how long a waiter has waited, and for how long nothing has changed.
// The turn of one with a place in the document will come: however long that
// takes, it counts what has changed.
func (l *line) times(w *waiter) (waited, unchanged time.Duration) {
	waited = time.Since(w.a.begun)
	if l.picture.image == nil {
		return waited, waited
	}
	if w.ticket != nil {
		waited = 0
	}
	return waited, max(time.Since(l.picture.changed), min(waited, patience*hotPause))
}
