package waitqueue

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Queues are the wait queues of one Locker, one for each document with
// waiters. They are safe for concurrent use.
type Queues struct {
	Config

	mu       sync.Mutex
	queues   map[string]*queue
	promised map[entry]*Waiter // by the entry that is handed over
	swept    int               // queues that the last sweep left
	count    uint64            // of arrivals
}

// entry is one of a document: those of a batch have one id.
type entry struct {
	document string
	id       uuid.UUID
}

// Config is what the queues need.
type Config struct {
	Rules   relations.Rules
	Longest time.Duration                                   // pause between two asks; 0 means that of package engine
	Now     func() time.Duration                            // a clock that is never set back; pauses are timed by the real one
	Closing <-chan struct{}                                 // is closed when all waits must end
	Closed  error                                           // the error of all waits then
	Holds   func(document bson.RawValue, id uuid.UUID) bool // reports whether such a lease is held here, and valid
}

// New makes queues without waiters.
func New(c Config) *Queues {
	c.Longest = cmp.Or(c.Longest, engine.DefaultPollInterval)
	return &Queues{Config: c, queues: map[string]*queue{}, promised: map[entry]*Waiter{}}
}

// Enter puts a waiter into the queue of the document with this key.
func (q *Queues) Enter(document string, r Request, known Known) *Waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.Now()
	if known.Answered == 0 {
		known.Answered = now
	}
	q.count++
	w := &Waiter{Request: r, order: q.count, place: known.Place, asked: known.Answered, nudge: make(chan struct{}, 1)}
	d := q.queue(document)
	d.push(w)
	d.observe(aged(known.Image, now-known.Answered), known.Sent)
	d.judge()
	return w
}

// Await returns when the waiter may ask the server, or has the answer of a handoff.
// Otherwise its error is the end of ctx, the queues' end, or a failure of all waiters
// ([Queues.Fail]). A waiter that is promised a lock waits for the answer, whatever ends.
func (q *Queues) Await(ctx context.Context, w *Waiter) (handed *engine.Answer, err error) {
	var end error
	for {
		over, pause := q.next(w, end != nil)
		switch {
		case over:
			return w.handed, w.failure
		case end == nil:
			end = q.sleep(ctx, w, pause)
		case pause == untilAnswered:
			<-w.nudge
		default:
			return nil, end
		}
	}
}

// Asleep says that the waiter has to wait.
func (q *Queues) Asleep(w *Waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.state == asleep
}

// next says whether the waiter's wait is over, or how long it may sleep. One whose wait has
// ended is promised nothing from then on.
func (q *Queues) next(w *Waiter, ended bool) (over bool, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case w.state == asking:
		return true, 0
	case w.state == answered:
		w.queue.set(w, taking)
		return true, 0
	case w.state == promised:
		return false, untilAnswered
	case ended:
		w.queue.set(w, left)
		return false, 0
	default:
		w.queue.contended = true
		return false, w.queue.pause(w)
	}
}

// sleep ends with a nudge, or after the pause: then the waiter may ask. Its error is the
// end of the wait.
func (q *Queues) sleep(ctx context.Context, w *Waiter, pause time.Duration) error {
	var over <-chan time.Time
	if pause < forEver {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-w.nudge:
		return nil
	case <-over:
		q.mu.Lock()
		defer q.mu.Unlock()
		w.queue.poll(w)
		return nil
	case <-ctx.Done():
		return attempt.Ended(ctx)
	case <-q.Closing:
		return q.Closed
	}
}

// Result is what a waiter's step has brought.
type Result struct {
	ID       uuid.UUID     // of the waiter's request from now on
	Held     bool          // it has the lock
	Place    Place         // where it waits in the document, or none
	Image    *engine.Image // that it was answered with, or nil
	Document string        // the key of the image's document
}

// Report ends the waiter's step.
func (q *Queues) Report(w *Waiter, r Result) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.Image != nil {
		q.move(w, r.Document)
	}
	d := w.queue
	w.ID, w.place = r.ID, r.Place
	if r.Held {
		d.observe(r.Image, w.sent)
		d.granted(w)
	} else {
		d.sort(w)
		d.refused(w, r.Image)
	}
	w.asked = q.Now()
	d.set(w, asleep)
	d.judge()
}

// move puts a waiter into the queue of the document in its answer: leases are
// released to that one. Its filter finds another document if a collation takes two
// values for one.
func (q *Queues) move(w *Waiter, document string) {
	if document == w.queue.document {
		return
	}
	state := w.state
	w.queue.remove(w)
	w.queue.judge()
	q.drop(w.queue)
	w.state = asleep
	d := q.queue(document)
	d.push(w)
	d.set(w, state)
}

// Leave removes the waiter from its queue.
func (q *Queues) Leave(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := w.queue
	d.set(w, left)
	d.remove(w)
	d.judge()
	q.drop(d)
}

// Fail ends the waits of the same document with the error of one waiter, which could
// not reach a server for long.
func (q *Queues) Fail(failed *Waiter, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := failed.queue
	for _, t := range d.tags {
		for _, w := range t.waiters {
			if w != failed && w.state == asleep {
				w.failure = err
				d.set(w, answered)
				w.wake()
			}
		}
	}
}

// View is the document's image as far as its queue knows it, or nil.
func (q *Queues) View(document string) *engine.Image {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.queues[document]; d != nil {
		return d.view.now()
	}
	return nil
}

// Waiting is how many waiters of a document are asleep.
func (q *Queues) Waiting(document string) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.queues[document]
	if d == nil {
		return 0
	}
	for _, t := range d.tags {
		for _, w := range t.waiters {
			if w.state == asleep {
				n++
			}
		}
	}
	return n
}

// Documents is how many documents have a queue.
func (q *Queues) Documents() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queues)
}

// queue is the document's, made anew if there is none.
func (q *Queues) queue(document string) *queue {
	d := q.queues[document]
	if d == nil {
		q.sweep()
		d = newQueue(q.Config, document)
		q.queues[document] = d
	}
	return d
}

// drop removes a queue without waiters. It keeps a queue that had waiters while
// the process has the lock: other waiters will come.
func (q *Queues) drop(d *queue) {
	if q.queues[d.document] != d { // another one stands there by now
		return
	}
	if len(d.tags) == 0 && (len(d.view.own) == 0 || !d.contended) {
		delete(q.queues, d.document)
	}
}

// sweep drops queues whose leases ran out without a release. It inspects each
// as often as their number doubles.
func (q *Queues) sweep() {
	if len(q.queues) < 2*q.swept+16 {
		return
	}
	for document, d := range q.queues {
		img := d.view.now()
		expired := img == nil || !slices.ContainsFunc(img.Lock.Entries, func(e engine.Entry) bool { return e.Expires.After(img.Now) })
		if len(d.tags) == 0 && expired {
			delete(q.queues, document)
		}
	}
	q.swept = len(q.queues)
}

// Next promises the lock to the waiter that gets it when the grant's entry is released.
// HandedOver must follow. It is nil if nobody waits, if the local run is over, or if a
// handoff can't serve the next waiter.
func (q *Queues) Next(g engine.Grant) *engine.Successor {
	document := Key(g.Pin)
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.queues[document]
	if d == nil {
		return nil
	}
	w := d.successor(g.ID)
	if w == nil {
		return nil
	}
	d.releasing(g.ID)
	d.set(w, promised)
	w.sent, w.news = q.Now(), d.view.news
	q.promised[entry{document, g.ID}] = w
	return &engine.Successor{
		Request: engine.Request{Tag: w.Tag, ID: w.ID, Document: w.Document, Terms: w.Terms},
		Waiting: w.place.isTaken(),
	}
}

// HandedOver gives the promised waiter its answer, if its entry was made, or may have been:
// else it asks. The released entry has left the document, or may have.
func (q *Queues) HandedOver(g engine.Grant, got engine.Answer, made bool) {
	from := entry{Key(g.Pin), g.ID}
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.promised[from]
	delete(q.promised, from)
	d := w.queue
	d.released(g.ID)
	if w.handed = nil; made {
		w.handed = &got
	}
	d.set(w, answered)
	if got.Image != nil && got.Outcome == engine.Granted {
		d.view.owns(w.ID)
	}
	w.wake()
	d.observe(got.Image, w.sent)
	d.judge()
	q.drop(d)
}

// Released notes that the grant's entry was released to nobody, or may have been.
func (q *Queues) Released(g engine.Grant) {
	q.learn(Key(g.Pin), func(d *queue) {
		d.released(g.ID)
		d.run.yield()
	})
}

// Removed notes that the entry of a waiter that gave up is gone from the document.
// It may have blocked others.
func (q *Queues) Removed(document string, id uuid.UUID) {
	q.learn(document, func(d *queue) { d.released(id) })
}

// Detached notes that the grant's entry was left to a token, or may have been. It stays
// in the document, and this process will not release it: its waiters poll, as for an
// entry of another process.
func (q *Queues) Detached(g engine.Grant) {
	q.learn(Key(g.Pin), func(d *queue) {
		delete(d.view.own, g.ID)
		d.stirred = true
	})
}

// Resumed takes in the image of a resume's answer: the entry has another id than
// before.
func (q *Queues) Resumed(document string, img *engine.Image, sent time.Duration) {
	q.learn(document, func(d *queue) { d.observe(img, sent) })
}

// learn applies an event to the document's queue, if there is one.
func (q *Queues) learn(document string, event func(*queue)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.queues[document]; d != nil {
		event(d)
		d.judge()
		q.drop(d)
	}
}
