package multilock

import (
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// Bounds of a burst: how often and for how long waiters of one process hand
// the lock to each other before it is given back to whoever asks first, and
// the gap in which they don't ask themselves. Who is turned away leaves nothing
// to be seen: only the gap tells whether other processes want the lock. So it is
// as long as the pause of a poller of a hot lock. As long as nobody comes in it,
// bursts grow; as soon as somebody was seen they are short, and gaps outlast
// them: of several processes those come next that have waited longest. The
// jitter keeps two of them from passing the lock between them.
const (
	longestBurst = 4096
	firstBurst   = 40 * time.Millisecond
	loneBurst    = 640 * time.Millisecond
	sharedBurst  = 20 * time.Millisecond
	loneGap      = 15 * time.Millisecond
	sharedGap    = 20 * time.Millisecond
	gapJitter    = 30 * time.Millisecond
	hotPause     = 12 * time.Millisecond
)

// heir is the first waiter that has a chance once the entry is gone, if the
// burst goes on. The document's own order is kept by the server.
func (l *line) heir(leaving uuid.UUID) *waiter {
	if l.handed == 0 {
		l.began = time.Now()
	}
	if l.handed == longestBurst || time.Since(l.began) > l.burst {
		l.handed, l.spent = 0, true
		return nil
	}
	img := l.picture.now()
	if img != nil {
		img = without(img, leaving)
	}
	for _, w := range l.heads() {
		if img == nil || w.state != asleep || w.ticket == nil && !w.a.filter.Exact {
			return nil
		}
		if blocking, _ := l.inTheWay(w, img); len(blocking) == 0 && l.mayAsk(w, img) {
			l.handed++
			return w
		}
	}
	return nil
}

// begin begins a burst, as long as is right by what was seen since the last.
func (l *line) begin() {
	if l.picture.rivals.After(l.got) {
		l.burst = sharedBurst
	} else {
		l.burst = min(2*l.burst, loneBurst)
	}
	l.got, l.handed = time.Now(), 0
}

// rest begins the gap after a burst.
func (l *line) rest() {
	if !l.spent {
		return
	}
	l.spent = false
	gap := loneGap
	if l.burst == sharedBurst {
		gap = sharedGap + rand.N(gapJitter)
	}
	l.gap = time.Now().Add(gap)
}
