package multilock

import (
	"cmp"
	"container/list"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
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

// line is where the waiters of one document stand, under their queue's lock:
// first come, first served among those of one tag, and nobody waits for a
// waiter whose tag it has nothing to do with.
// Only those ask the server who have a chance by the picture, and one, the
// first, polls for all.
type line struct {
	document string // its key
	engine   *engine.Engine
	tags     map[string]*tagLine // those that somebody waits for
	poller   *waiter

	picture   picture
	stirred   bool                   // the poller has to look anew how long it may sleep
	shared    map[string]sharedEntry // by tag
	contended bool                   // somebody had to wait

	got    time.Time     // when the lock was got by asking, last
	burst  time.Duration // how long it may go from hand to hand then
	handed int           // how often it went
	began  time.Time     // when it went first
	spent  bool          // the burst is over
	gap    time.Time     // the end of the gap after it
}

// tagLine are the waiters of one tag.
type tagLine struct {
	list.List     // of *waiter, by arrival
	busy      int // asking, or promised the lock
}

func (t *tagLine) first() *waiter { return t.Front().Value.(*waiter) }

func (l *line) push(w *waiter) {
	tag := w.a.request.Tag
	if l.tags[tag] == nil {
		l.tags[tag] = &tagLine{}
	}
	w.place = l.tags[tag].PushBack(w)
	l.stirred = l.stirred || l.tags[tag].first() == w
}

// remove may be called twice.
func (l *line) remove(w *waiter) {
	if w.place == nil {
		return
	}
	tag := w.a.request.Tag
	if w.state.busy() {
		l.tags[tag].busy--
	}
	l.stirred = l.stirred || l.tags[tag].first() == w
	l.tags[tag].Remove(w.place)
	w.place = nil
	if l.tags[tag].Len() == 0 {
		delete(l.tags, tag)
	}
}

func (l *line) set(w *waiter, s state) {
	if w.place != nil {
		t := l.tags[w.a.request.Tag]
		if w.state.busy() {
			t.busy--
		}
		if s.busy() {
			t.busy++
		}
	}
	w.state = s
}

// granted takes a waiter out that has its lease. Whoever got it by asking
// begins a new burst.
func (l *line) granted(w *waiter, lease *doclock.Lease) {
	if w.state == asking {
		l.begin()
	}
	l.remove(w)
	l.entered(w.a, lease)
}

// entered takes in that an acquire has a lease: of an entry of its own, or of
// one that was there.
func (l *line) entered(a *acquisition, lease *doclock.Lease) {
	if lease.ID() != a.request.ID {
		return
	}
	l.picture.owns(lease.ID())
	l.open(a)
}

// see takes in the image of a command that was sent at that time or later.
func (l *line) see(img *engine.Image, sent time.Time) {
	changed := l.picture.changed
	if l.picture.see(img, sent) {
		l.look()
	}
	l.stirred = l.stirred || l.picture.changed != changed
}

// forget is told that an entry is being given back.
func (l *line) forget(id uuid.UUID) { l.gives(id, time.Time{}) }

// forgot is told that it was, or may have been.
func (l *line) forgot(id uuid.UUID) { l.gives(id, time.Now()) }

func (l *line) gives(id uuid.UUID, end time.Time) {
	l.picture.forget(id, end)
	l.close(id)
	l.stirred = true
}

// heads are the first waiters of each tag, by arrival.
func (l *line) heads() []*waiter {
	heads := make([]*waiter, 0, len(l.tags))
	for _, t := range l.tags {
		heads = append(heads, t.first())
	}
	slices.SortFunc(heads, func(a, b *waiter) int { return cmp.Compare(a.order, b.order) })
	return heads
}

// judge tells those to ask who have a chance, and names the poller.
func (l *line) judge() {
	for tag := range l.shared {
		l.admit(tag)
	}
	heads := l.heads()
	if len(heads) == 0 {
		l.poller = nil
		return
	}
	if l.stirred || l.poller != heads[0] {
		l.stirred, l.poller = false, heads[0]
		l.poller.wake()
	}
	if time.Now().Before(l.gap) {
		l.poller.wake() // to sleep until then
		return
	}
	img := l.picture.now()
	for _, head := range heads {
		free := false
		for e := head.place; e != nil; e = e.Next() {
			w := e.Value.(*waiter)
			if w.state == asleep {
				if !free && !l.mayAsk(w, img) {
					break
				}
				free = w != l.poller && w.ticket == nil // what goes for one goes for all of the tag
				if l.ask(w) {
					w.wake()
				}
			}
			if l.related(w.a.request.Tag, w.a.request.Tag) || l.gathers(w.a) {
				break
			}
		}
	}
}

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

// refused has a waiter rest. What has made way while it asked may have done so
// after the refusal.
func (l *line) refused(w *waiter, img *engine.Image) {
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

// mayAsk says that a waiter has a chance, and that nobody is in its way who is
// on the way to the server, or came earlier and will be.
func (l *line) mayAsk(w *waiter, img *engine.Image) bool {
	tag := w.a.request.Tag
	for other, t := range l.tags {
		if t.busy > 0 && (img == nil || l.related(tag, other) || other == tag && l.gathers(w.a)) {
			return false
		}
		if first := t.first(); img != nil && first.order < w.order && first.state == asleep && l.related(tag, other) && l.hasChance(first, img) {
			return false
		}
	}
	if img == nil {
		return w == l.poller
	}
	return l.hasChance(w, img)
}

// hasChance says that nobody is in a waiter's way in the picture. The first one
// also asks for a place in the document, if its tag waits there.
func (l *line) hasChance(w *waiter, img *engine.Image) bool {
	tag := w.a.request.Tag
	blocking, _ := l.inTheWay(w, img)
	return len(blocking) == 0 || w == l.poller && w.ticket == nil && !slices.ContainsFunc(blocking, func(e engine.Entry) bool {
		return l.engine.Rules()[tag][e.Tag].Kind != relations.Assertive
	})
}

func (l *line) related(x, y string) bool {
	rules := l.engine.Rules()
	return rules[x][y].Kind != relations.None || rules[y][x].Kind != relations.None
}

func (l *line) inTheWay(w *waiter, img *engine.Image) ([]engine.Entry, time.Duration) {
	if w.ticket == nil {
		return l.engine.InTheWay(img, w.a.request.Tag, nil)
	}
	return l.engine.InTheWay(img, w.a.request.Tag, &engine.Entry{ID: w.ticket.grant.ID, Seq: w.ticket.grant.Seq})
}

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
			if head := t.first(); head != w && head.ticket == nil {
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
