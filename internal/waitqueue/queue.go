package waitqueue

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Request is what a waiter wants.
type Request struct {
	engine.Request
	Exact  bool          // its filter demands the document's identity alone: a handoff can serve it
	Begun  time.Duration // when it came, by the queues' clock
	Nested bool          // its caller holds an entry of the document, and those before it may wait for that
}

// Place is the place of a waiter's entry in the document queue. The zero Place
// is none.
type Place struct {
	Seq     int64
	Confirm time.Duration // the longest pause that keeps it
}

func (p Place) isTaken() bool { return p.Confirm > 0 }

func (p Place) order() int64 {
	if !p.isTaken() {
		return math.MaxInt64
	}
	return p.Seq
}

// Known is the knowledge about a waiter that enters. The zero Known is none.
type Known struct {
	Place    Place
	Image    *engine.Image // of its last answer, or nil
	Sent     time.Duration // when the command was sent, or earlier
	Answered time.Duration // when it was answered
}

// Waiter waits in the wait queue of a document. One goroutine at a time waits.
type Waiter struct {
	Request
	order uint64 // of arrival
	nudge chan struct{}

	// Under the queues' lock:
	queue   *queue
	place   Place
	state   state
	removed bool           // from its queue
	asked   time.Duration  // when it was last answered, or came
	sent    time.Duration  // when it last began to ask, or was promised the lock
	news    uint64         // the view's then, or at the answer
	rest    time.Duration  // for how long after a refusal it doesn't ask without news
	handed  *engine.Answer // of a handoff; without an image it is unknown whether the waiter has an entry
	failure error          // that ends its wait
}

// state is what a waiter is doing.
type state uint8

const (
	asleep   state = iota
	asking         // it asks the server, or is about to
	promised       // a lease is being handed over to it
	answered       // the handoff's answer has come, or a failure
	taking         // it reads that
	left           // it has the lock, or gave up
)

// busy waiters may have the lock in a moment.
func (s state) busy() bool { return s != asleep && s != left }

func (w *Waiter) wake() {
	select {
	case w.nudge <- struct{}{}:
	default: // it has one coming
	}
}

// entry is its own one in the document, or nil.
func (w *Waiter) entry() *engine.Entry {
	if !w.place.isTaken() {
		return nil
	}
	return &engine.Entry{ID: w.ID, Seq: w.place.Seq}
}

// compare is the order of the waiters of a tag: those with a place in the document
// come first, by place, and then the others, by arrival.
func (w *Waiter) compare(other *Waiter) int {
	return cmp.Or(cmp.Compare(w.place.order(), other.place.order()), cmp.Compare(w.order, other.order))
}

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
	i, _ := slices.BinarySearchFunc(t.waiters, w, (*Waiter).compare)
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
	changed := d.view.update(img, sent)
	d.stirred = d.stirred || changed
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
			if head.place.isTaken() {
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
	if w.place.isTaken() {
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
	return len(blocking) == 0 || !w.place.isTaken() && !slices.ContainsFunc(blocking, func(e engine.Entry) bool {
		return d.rules[w.Tag][e.Tag].Kind.Arriving() != relations.Blocked
	})
}

func (d *queue) related(x, y string) bool {
	return d.rules[x][y].Kind != relations.None || d.rules[y][x].Kind != relations.None
}

func (d *queue) inTheWay(w *Waiter, img *engine.Image) ([]engine.Entry, time.Duration) {
	return engine.InTheWay(d.rules, img, w.Tag, w.entry())
}

// Key names a document by its _id and its shard key: in a sharded collection,
// two documents may have one _id. Numbers that are equal to the server are equal
// here.
func Key(pin engine.Pin) string {
	var b strings.Builder
	for _, field := range pin {
		v := field.Value.(bson.RawValue)
		if n, number := v.AsInt64OK(); number {
			if f, float := v.DoubleOK(); !float || f == float64(n) && f < 1<<63 { // arm64 makes the greatest int64 of all above it
				v.Type, v.Value, _ = bson.MarshalValue(n) // an int64 always marshals
			}
		}
		b.Write(binary.LittleEndian.AppendUint32([]byte{byte(v.Type)}, uint32(len(v.Value))))
		b.Write(v.Value)
	}
	return b.String()
}
