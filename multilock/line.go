package multilock

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
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
func (l *line) granted(w *waiter, held *lease.Handle) {
	if w.state == asking {
		l.begin()
	}
	l.remove(w)
	l.entered(w.a, held)
}

// entered takes in that an acquire has a lease: of an entry of its own, or of
// one that was there.
func (l *line) entered(a *acquisition, held *lease.Handle) {
	if held.ID() != a.request.ID {
		return
	}
	l.picture.owns(held.ID())
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
