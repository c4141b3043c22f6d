package multilock

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
)

// Bounds of a burst: how often and for how long waiters of one process hand
// the lock to each other before it is given back to whoever asks first, and
// the gap in which they don't ask themselves. Where somebody else was seen
// lately, bursts are shorter, and gaps so long that all who wait ask in them:
// the pause of a poller of a hot lock is shorter than that.
const (
	longestBurst = 128
	burstTime    = 100 * time.Millisecond
	sharedBurst  = 30 * time.Millisecond
	shortGap     = time.Millisecond
	longGap      = 30 * time.Millisecond
	hotPause     = 12 * time.Millisecond
	lately       = time.Second
)

// line is where the waiters of one document stand, under their queue's lock:
// first come, first served among those of one tag, and nobody waits for a
// waiter whose tag it has nothing to do with.
//
// The picture is the last image that any of them was answered with. What the
// server would say is told from it, so that only those ask who have a chance,
// and one, the first, polls for all.
type line struct {
	engine *engine.Engine
	leases *doclock.Leases
	tags   map[string]*tagLine // those that somebody waits for
	poller *waiter

	contended bool                   // somebody had to wait
	picture   *engine.Image          // without what was given back since
	taken     time.Time              // when it was, by this process's clock
	changed   time.Time              // when it last showed somebody new
	gone      []uuid.UUID            // the last few entries that were given back
	own       []uuid.UUID            // entries that waiters of this line were granted
	shared    map[string]sharedEntry // by tag
	rivals    time.Time              // when an entry of somebody else was last seen

	handed int       // in this burst
	began  time.Time // the burst
	spent  bool      // it is over
	gap    time.Time // the end of the gap after it
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
		l.handed = 0
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
	l.owns(lease.ID())
	l.open(a)
}

func (l *line) owns(id uuid.UUID) {
	if !slices.Contains(l.own, id) {
		l.own = append(l.own, id)
	}
}

// see takes in an image, unless a later one was seen.
func (l *line) see(img *engine.Image) {
	if img == nil || img.Stored() || l.picture != nil && older(img, l.picture) {
		return
	}
	now := time.Now()
	if l.picture == nil || l.picture.Lock.Fence != img.Lock.Fence {
		l.changed = now
	}
	seen := &engine.Image{ID: img.ID, Now: img.Now, Lock: img.Lock}
	l.picture, l.taken = seen, now
	for _, id := range l.gone {
		l.erase(id)
	}
	l.own = slices.DeleteFunc(l.own, func(id uuid.UUID) bool { return !l.shows(id) })
	l.look()
	if !slices.ContainsFunc(seen.Lock.Entries, l.mine) && len(seen.Lock.Entries) > 0 {
		l.rivals = now
	}
}

// mine says of an entry that this process holds it.
func (l *line) mine(e engine.Entry) bool {
	return slices.Contains(l.own, e.ID) || l.leases.Believed(e.ID)
}

// older goes by the document's last number first: commands are executed in
// another order than they read the clock. A number that is still behind after
// a while was set back by a stranger.
func older(a, b *engine.Image) bool {
	if a.Lock.Fence == b.Lock.Fence {
		return a.Now.Before(b.Now)
	}
	return a.Lock.Fence < b.Lock.Fence && a.Now.Before(b.Now.Add(lately))
}

// now is the picture with the time that has passed since.
func (l *line) now() *engine.Image {
	if l.picture == nil {
		return nil
	}
	aged := *l.picture
	aged.Now = aged.Now.Add(time.Since(l.taken))
	return &aged
}

func (l *line) shows(id uuid.UUID) bool {
	return slices.ContainsFunc(l.picture.Lock.Entries, func(e engine.Entry) bool { return e.ID == id })
}

func (l *line) erase(id uuid.UUID) {
	if l.picture != nil {
		l.picture.Lock.Entries = without(l.picture.Lock.Entries, id)
	}
}

func without(entries []engine.Entry, id uuid.UUID) []engine.Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e engine.Entry) bool { return e.ID == id })
}

// forget is told that an entry is being given back. An image may still show
// it that is already on its way.
func (l *line) forget(id uuid.UUID) {
	const memory = 16
	l.erase(id)
	l.close(id)
	l.own = slices.DeleteFunc(l.own, func(own uuid.UUID) bool { return own == id })
	if !slices.Contains(l.gone, id) {
		l.gone = append(l.gone, id)
		l.gone = l.gone[max(0, len(l.gone)-memory):]
	}
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

// admit lets waiters in who need to ask nobody.
func (l *line) admit() {
	for tag := range l.shared {
		t := l.tags[tag]
		if t == nil {
			continue
		}
		for e := t.Front(); e != nil; {
			w := e.Value.(*waiter)
			e = e.Next() // before w is removed
			if w.state != asleep || w.ticket != nil {
				continue
			}
			if lease := l.share(w.a); lease != nil {
				w.answer = answer{lease: lease}
				l.set(w, answered)
				l.remove(w)
				w.wake()
			}
		}
	}
}

// judge tells those to ask who have a chance, and names the poller.
func (l *line) judge() {
	l.admit()
	heads := l.heads()
	if len(heads) == 0 {
		l.poller = nil
		return
	}
	if l.poller != heads[0] {
		l.poller = heads[0]
		l.poller.wake()
	}
	if time.Now().Before(l.gap) {
		l.poller.wake() // to sleep until then
		return
	}
	img := l.now()
	for _, head := range heads {
		for e := head.place; e != nil; e = e.Next() {
			w := e.Value.(*waiter)
			if w.state == asleep && !l.mayAsk(w, img) {
				break
			}
			if w.state == asleep {
				l.set(w, asking)
				w.wake()
			}
			if l.related(w.a.request.Tag, w.a.request.Tag) || l.gathers(w.a) {
				break
			}
		}
	}
}

// mayAsk says that a waiter has a chance: nobody is in its way, neither in the
// picture nor on the way to the server. The first one also asks for a place in
// the document, if its tag waits there.
func (l *line) mayAsk(w *waiter, img *engine.Image) bool {
	tag := w.a.request.Tag
	for other, t := range l.tags {
		if t.busy > 0 && (img == nil || l.related(tag, other) || other == tag && l.gathers(w.a)) {
			return false
		}
	}
	if img == nil {
		return w == l.poller
	}
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
	bound := burstTime
	if l.contested() {
		bound = sharedBurst
	}
	if l.handed == longestBurst || time.Since(l.began) > bound {
		l.handed, l.spent = 0, true
		return nil
	}
	img := l.now()
	if img != nil {
		img.Lock.Entries = without(img.Lock.Entries, leaving)
	}
	for _, w := range l.heads() {
		if img == nil || w.state != asleep || !w.a.filter.Exact {
			return nil
		}
		if blocking, _ := l.inTheWay(w, img); len(blocking) == 0 && l.mayAsk(w, img) {
			l.handed++
			return w
		}
	}
	return nil
}

// rest begins the gap after a burst.
func (l *line) rest() {
	if !l.spent {
		return
	}
	l.spent = false
	gap := shortGap
	if l.contested() {
		gap = longGap
	}
	l.gap = time.Now().Add(gap)
}

// contested says that another process wants the lock too.
func (l *line) contested() bool { return time.Since(l.rivals) < lately }

// pause is how long a waiter sleeps unless it is nudged, without end if
// negative. Others than the poller keep their places in the document only. As
// long as this process itself has the lock, it will be given back here; and in
// the document's queue, only those near its head ask often.
func (l *line) pause(w *waiter) time.Duration {
	if w != l.poller && w.ticket == nil {
		return -1
	}
	if gap := time.Until(l.gap); gap > 0 {
		return gap
	}
	waited, img := time.Since(w.a.begun), l.now()
	if img == nil {
		return max(0, pause(waited, waited, 0)-time.Since(w.asked))
	}
	blocking, free := l.inTheWay(w, img)
	if slices.ContainsFunc(blocking, l.mine) {
		return l.keep(w, free)
	}
	hot, ahead := hotPause, 0
	if w.ticket != nil { // whose turn will come, so that nobody else asks in vain
		hot = shortestPause
	}
	unchanged := max(time.Since(l.changed), min(waited, patience*hot))
	for _, e := range blocking {
		if !e.Held() {
			ahead++
		}
	}
	d := pause(waited, unchanged, free) * time.Duration(1+ahead)
	if free > 0 {
		d = min(d, free+shortestPause)
	}
	return l.keep(w, d)
}

// keep is the time left of a pause, and short enough to keep a place in the
// document.
func (l *line) keep(w *waiter, d time.Duration) time.Duration {
	if w.ticket != nil {
		d = min(d, l.engine.Wait(w.a.request.Tag)/3)
	}
	return max(0, d-time.Since(w.asked))
}
