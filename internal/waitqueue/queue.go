package waitqueue

import (
	"cmp"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
)

// queue holds the waiters of one document, under the queues' lock. It decides
// in which order they ask, and who polls.
type queue struct {
	document  string // its key
	rules     relations.Rules
	clock     func() time.Duration
	longest   time.Duration        // pause
	tags      map[string]*tagQueue // those with waiters
	poller    *Waiter
	stirred   bool // the poller's pause may have changed
	contended bool // a waiter had to wait

	view view
	run  localRun
}

// tagQueue holds the waiters of one tag, in their order.
type tagQueue struct {
	waiters []*Waiter
	busy    int // asking, or promised the lock
}

// mostAsking is how many waiters of a tag that ignores itself ask beside each other. Those
// behind them would meet the same entries.
const mostAsking = 8

func newQueue(c Config, document string) *queue {
	return &queue{
		document: document, rules: c.Rules, clock: c.Now, longest: c.Longest,
		tags: map[string]*tagQueue{},
		view: view{clock: c.Now, holds: c.Holds},
		run:  localRun{clock: c.Now, most: firstRun},
	}
}

func (t *tagQueue) first() *Waiter { return t.waiters[0] }

func (d *queue) push(w *Waiter) {
	t := d.tags[w.Tag]
	if t == nil {
		t = &tagQueue{}
		d.tags[w.Tag] = t
	}
	w.queue, w.removed = d, false
	t.insert(w)
	d.stirred = d.stirred || t.first() == w
}

func (t *tagQueue) insert(w *Waiter) {
	i, _ := slices.BinarySearchFunc(t.waiters, w, func(a, b *Waiter) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	t.waiters = slices.Insert(t.waiters, i, w)
}

// sort moves a waiter to its place among the others: it may have got one in the document.
func (d *queue) sort(w *Waiter) {
	if w.removed {
		return
	}
	t := d.tags[w.Tag]
	t.waiters = slices.DeleteFunc(t.waiters, func(other *Waiter) bool { return other == w })
	t.insert(w)
}

// remove may be called twice.
func (d *queue) remove(w *Waiter) {
	if w.removed {
		return
	}
	t := d.tags[w.Tag]
	t.count(w.state, -1)
	d.stirred = d.stirred || t.first() == w
	t.waiters = slices.DeleteFunc(t.waiters, func(other *Waiter) bool { return other == w })
	w.removed = true
	if len(t.waiters) == 0 {
		delete(d.tags, w.Tag)
	}
}

func (d *queue) set(w *Waiter, s state) {
	if !w.removed {
		d.tags[w.Tag].count(w.state, -1)
		d.tags[w.Tag].count(s, 1)
	}
	w.state = s
}

func (t *tagQueue) count(s state, n int) {
	if s.busy() {
		t.busy += n
	}
}

// granted removes a waiter that has its lease. A waiter that got it by asking
// begins a new local run.
func (d *queue) granted(w *Waiter) {
	if w.state == asking {
		d.run.begin(d.view.rivals)
	}
	d.remove(w)
	d.view.owns(w.ID)
}

// observe records the image of a command that was sent at that time or later.
func (d *queue) observe(img *engine.Image, sent time.Duration) {
	changed := d.view.changes
	d.view.update(img, sent)
	d.stirred = d.stirred || d.view.changes != changed
}

// releasing notes that an entry is being released, or handed over.
func (d *queue) releasing(id uuid.UUID) { d.forget(departure{id: id}) }

// released notes that it was, or may have been.
func (d *queue) released(id uuid.UUID) { d.forget(departure{id: id, over: true, end: d.clock()}) }

func (d *queue) forget(entry departure) {
	d.view.forget(entry)
	d.stirred = true
}

// heads are the first waiters of each tag, by arrival.
func (d *queue) heads() []*Waiter {
	heads := make([]*Waiter, 0, len(d.tags))
	for _, t := range d.tags {
		heads = append(heads, t.first())
	}
	slices.SortFunc(heads, func(a, b *Waiter) int { return cmp.Compare(a.order, b.order) })
	return heads
}

// judge wakes the waiters that may ask, and names the poller.
func (d *queue) judge() {
	heads := d.heads()
	if len(heads) == 0 {
		d.poller = nil
		return
	}
	if d.stirred || d.poller != heads[0] {
		d.stirred, d.poller = false, heads[0]
		d.poller.wake()
		for _, head := range heads { // those with a place have pauses of their own
			if head.place.taken() {
				head.wake()
			}
		}
	}
	if d.run.yields() > 0 {
		d.poller.wake() // to sleep until the window's end
		return
	}
	img := d.view.now()
	for _, head := range heads {
		for _, w := range d.front(head.Tag) {
			if w.state == asleep && d.unrested(w) == 0 && d.mayAsk(w, img) {
				d.poll(w)
				w.wake()
			}
		}
	}
}

// front are the waiters of a tag that may ask: the first, or the first few if they don't
// depend on each other.
func (d *queue) front(tag string) []*Waiter {
	waiters := d.tags[tag].waiters
	if d.related(tag, tag) {
		return waiters[:1]
	}
	return waiters[:min(mostAsking, len(waiters))]
}

// poll lets a waiter ask.
func (d *queue) poll(w *Waiter) {
	if w.state == asleep {
		d.set(w, asking)
		w.sent, w.news, w.handed = d.clock(), d.view.news, nil
	}
}

// refused makes a waiter rest while the poller asks for it. An entry that left
// while the waiter asked may have left after the refusal.
func (d *queue) refused(w *Waiter, img *engine.Image) {
	d.stirred = d.stirred || w != d.poller
	news := d.view.news
	d.observe(img, w.sent)
	if w.news == news {
		w.news = d.view.news
	}
	_, unchanged := d.times(w)
	w.rest = d.restAfter(unchanged)
	if w.place.taken() {
		w.rest = min(w.rest, w.place.Confirm)
	}
	if img := d.view.now(); img != nil {
		if _, free := d.inTheWay(w, img); free > 0 {
			w.rest = min(w.rest, free)
		}
	}
}

// mayAsk says that a waiter has a chance, and that no other waiter of this process that
// asks now is in its way. Without a view only the poller asks.
func (d *queue) mayAsk(w *Waiter, img *engine.Image) bool {
	for other, t := range d.tags {
		if t.busy > 0 && (img == nil || d.related(w.Tag, other)) {
			return false
		}
	}
	if img == nil {
		return w == d.poller
	}
	return d.hasChance(w, img)
}

// hasChance says that no entry of the view is in a waiter's way. One of the front also asks
// for a place in the document, if its tag waits there: readers that have places next to each
// other are let in together.
func (d *queue) hasChance(w *Waiter, img *engine.Image) bool {
	blocking, _ := d.inTheWay(w, img)
	return len(blocking) == 0 || !w.place.taken() && !slices.ContainsFunc(blocking, func(e engine.Entry) bool {
		return d.rules[w.Tag][e.Tag].Kind.Arriving() != relations.Blocked
	})
}

func (d *queue) related(x, y string) bool {
	return d.rules[x][y].Kind != relations.None || d.rules[y][x].Kind != relations.None
}

func (d *queue) inTheWay(w *Waiter, img *engine.Image) ([]engine.Entry, time.Duration) {
	return engine.InTheWay(d.rules, img, w.Tag, w.entry())
}
