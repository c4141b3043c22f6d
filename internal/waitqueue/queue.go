package waitqueue

import (
	"cmp"
	"container/list"
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
	longest   time.Duration // pause
	visits    *int
	leases    Leases
	tags      map[string]*tagQueue // those with waiters
	poller    *Waiter
	stirred   bool // the poller's pause may have changed
	contended bool // a waiter had to wait

	view   view
	run    localRun
	shared map[string]*sharedEntry // by tag
}

// tagQueue holds the waiters of one tag.
type tagQueue struct {
	list.List // of *Waiter: first those with a place, by place; then by arrival
	asleep    sleepers
	busy      int // asking, or promised the lock
}

func newQueue(rules relations.Rules, longest time.Duration, clock func() time.Duration, visits *int, leases Leases, document string) *queue {
	return &queue{
		document: document, rules: rules, longest: longest, clock: clock, visits: visits, leases: leases,
		tags:   map[string]*tagQueue{},
		view:   view{clock: clock, leases: leases},
		run:    localRun{clock: clock, most: firstRun},
		shared: map[string]*sharedEntry{},
	}
}

func (t *tagQueue) first() *Waiter { return t.Front().Value.(*Waiter) }

func (d *queue) push(w *Waiter) {
	t := d.tags[w.Tag]
	if t == nil {
		t = &tagQueue{asleep: newSleepers(d.visits)}
		d.tags[w.Tag] = t
	}
	w.queue, w.element = d, t.PushBack(w)
	if w.place.taken() {
		for e := w.element.Prev(); e != nil && !e.Value.(*Waiter).place.taken(); e = w.element.Prev() {
			t.MoveBefore(w.element, e)
		}
	}
	d.sort(w)
	d.count(t, w)
	d.stirred = d.stirred || t.first() == w
}

// sort moves a waiter with a place before those with later places.
func (d *queue) sort(w *Waiter) {
	if w.element == nil || !w.place.taken() {
		return
	}
	for e := w.element.Prev(); e != nil; e = w.element.Prev() {
		if before := e.Value.(*Waiter).place; !before.taken() || before.Seq < w.place.Seq {
			return
		}
		d.tags[w.Tag].MoveBefore(w.element, e)
	}
}

// remove may be called twice.
func (d *queue) remove(w *Waiter) {
	if w.element == nil {
		return
	}
	t := d.tags[w.Tag]
	d.uncount(t, w)
	d.stirred = d.stirred || t.first() == w
	t.Remove(w.element)
	w.element = nil
	if t.Len() == 0 {
		delete(d.tags, w.Tag)
	}
}

func (d *queue) set(w *Waiter, s state) {
	if w.element == nil {
		w.state = s
		return
	}
	t := d.tags[w.Tag]
	d.uncount(t, w)
	w.state = s
	d.count(t, w)
}

// count adds a waiter to those of its tag with the same state.
func (d *queue) count(t *tagQueue, w *Waiter) {
	switch {
	case w.state.busy():
		t.busy++
	case w.state == asleep:
		t.asleep.add(w, d.view.news)
	}
}

func (d *queue) uncount(t *tagQueue, w *Waiter) {
	switch {
	case w.state.busy():
		t.busy--
	case w.state == asleep:
		t.asleep.remove(w)
	}
}

// granted removes a waiter that has its lease. A waiter that got it by asking
// begins a new local run.
func (d *queue) granted(w *Waiter, held uuid.UUID) {
	if w.state == asking {
		d.run.begin(d.view.rivals)
	}
	d.remove(w)
	if held == w.ID {
		d.arrived(w.Request)
	}
}

// arrived records that a request has an entry of its own.
func (d *queue) arrived(r Request) {
	d.view.owns(r.ID)
	d.open(r)
}

// observe records the image of a command that was sent at that time or later.
func (d *queue) observe(img *engine.Image, sent time.Duration) {
	changed := d.view.changes
	if d.view.update(img, sent) {
		d.review()
	}
	d.stirred = d.stirred || d.view.changes != changed
}

// releasing notes that an entry is being released, or handed over.
func (d *queue) releasing(id uuid.UUID) { d.forget(departure{id: id}) }

// released notes that it was, or may have been.
func (d *queue) released(id uuid.UUID) { d.forget(departure{id: id, over: true, end: d.clock()}) }

func (d *queue) forget(entry departure) {
	d.view.forget(entry)
	d.close(entry.id)
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
	for tag := range d.shared {
		d.admit(tag)
	}
	heads := d.heads()
	if len(heads) == 0 {
		d.poller = nil
		return
	}
	if d.stirred || d.poller != heads[0] {
		d.stirred, d.poller = false, heads[0]
		d.poller.wake()
	}
	if d.run.yields() > 0 {
		d.poller.wake() // to sleep until the window's end
		return
	}
	img := d.view.now()
	for _, head := range heads {
		d.judgeTag(d.tags[head.Tag], img)
	}
}

// judgeTag wakes the first waiters of a tag: all that do not depend on each other.
func (d *queue) judgeTag(t *tagQueue, img *engine.Image) {
	last := d.lastToAsk(t)
	free := false // what is true of one is true of all behind it
	for {
		w := t.asleep.first(d.clock(), d.view.news)
		if w == nil || last != nil && last.before(w) || !free && !d.mayAsk(w, img) {
			return
		}
		free = w != d.poller && !w.place.taken()
		d.poll(w)
		w.wake()
	}
}

// lastToAsk is the first waiter of a tag on which those behind it depend, or nil.
func (d *queue) lastToAsk(t *tagQueue) (last *Waiter) {
	first := t.first()
	if d.related(first.Tag, first.Tag) {
		return first
	}
	for _, sharing := range t.asleep.sharing {
		if w := sharing.first(); w != nil && d.gathers(w.Request) && (last == nil || w.before(last)) {
			last = w
		}
	}
	return last
}

// poll lets a waiter ask after its pause.
func (d *queue) poll(w *Waiter) {
	if w.state == asleep {
		d.set(w, asking)
		w.sent, w.news = d.clock(), d.view.news
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

// mayAsk says that a waiter has a chance, and that no other waiter is in its way:
// none that asks now, and no earlier one that will ask.
func (d *queue) mayAsk(w *Waiter, img *engine.Image) bool {
	for other, t := range d.tags {
		if t.busy > 0 && (img == nil || d.related(w.Tag, other) || other == w.Tag && d.gathers(w.Request)) {
			return false
		}
		if first := t.first(); img != nil && first.order < w.order && first.state == asleep && d.related(w.Tag, other) && d.hasChance(first, img) {
			return false
		}
	}
	if img == nil {
		return w == d.poller
	}
	return d.hasChance(w, img)
}

// hasChance says that no entry of the view is in a waiter's way. The first waiter
// also asks for a place in the document, if its tag waits there.
func (d *queue) hasChance(w *Waiter, img *engine.Image) bool {
	blocking, _ := d.inTheWay(w, img)
	return len(blocking) == 0 || w == d.poller && !w.place.taken() && !slices.ContainsFunc(blocking, func(e engine.Entry) bool {
		return d.rules[w.Tag][e.Tag].Kind.Arriving() != relations.Blocked
	})
}

func (d *queue) related(x, y string) bool {
	return d.rules[x][y].Kind != relations.None || d.rules[y][x].Kind != relations.None
}

func (d *queue) inTheWay(w *Waiter, img *engine.Image) ([]engine.Entry, time.Duration) {
	return engine.InTheWay(d.rules, img, w.Tag, w.entry())
}
