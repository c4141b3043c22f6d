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
)

// Queues are the wait queues of one Locker, one for each document with
// waiters. They are safe for concurrent use.
type Queues struct {
	Config

	mu       sync.Mutex
	queues   map[string]*queue
	promised map[uuid.UUID]*Waiter // by the entry that is handed over
	swept    int                   // queues that the last sweep left
	count    uint64                // of arrivals
	visits   int                   // in which waiters were found, added and removed
}

// Config is what the queues need.
type Config struct {
	Rules   relations.Rules
	Longest time.Duration        // pause between two asks; 0 means that of package engine
	Now     func() time.Duration // a clock that is never set back; pauses are timed by the real one
	Closing <-chan struct{}      // is closed when all waits must end
	Closed  error                // the error of all waits then
	Leases  Leases
}

// Leases is what the queues ask of the leases of their Locker.
type Leases interface {
	// Valid reports whether a lease with this id is held here, and valid.
	Valid(id uuid.UUID) bool

	// Reserve keeps one more lease of a shared entry for a waiter, without a command.
	// It is false if nobody can join any more.
	Reserve(id uuid.UUID) bool
}

// New makes queues without waiters.
func New(c Config) *Queues {
	c.Longest = cmp.Or(c.Longest, engine.DefaultPollInterval)
	return &Queues{Config: c, queues: map[string]*queue{}, promised: map[uuid.UUID]*Waiter{}}
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

// Await returns the waiter's next step. Otherwise its error is the end of ctx,
// the queues' end, or a failure of all waiters ([Queues.Fail]).
func (q *Queues) Await(ctx context.Context, w *Waiter) (Step, error) {
	for {
		step, pause, err := q.next(w)
		if step.Kind != 0 || err != nil {
			return step, err
		}
		if err := q.sleep(ctx, w, pause); err != nil {
			return Step{}, err
		}
	}
}

// Asleep says that the waiter has no next step yet.
func (q *Queues) Asleep(w *Waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.state == asleep
}

// next is the waiter's next step, or else how long to wait for a nudge; negative is
// without end.
func (q *Queues) next(w *Waiter) (step Step, pause time.Duration, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch w.state {
	case asking:
		return Step{Kind: Ask}, 0, nil
	case answered:
		w.queue.set(w, taking)
		return w.step, 0, w.failure
	case promised:
		return Step{}, -1, nil
	default:
		w.queue.contended = true
		return Step{}, w.queue.pause(w), nil
	}
}

// sleep ends with a nudge, or after the pause: then the waiter may ask.
func (q *Queues) sleep(ctx context.Context, w *Waiter, pause time.Duration) error {
	var over <-chan time.Time
	if pause >= 0 {
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
	Held     uuid.UUID     // the entry whose lease it has, or none
	Place    Place         // where it waits in the document, or none
	Image    *engine.Image // that it was answered with, or nil
	Sent     time.Duration // when that command was sent; zero is when the step came
	Document string        // the key of the image's document
}

// Settle ends the waiter's step, if it was Ask or Answer.
func (q *Queues) Settle(w *Waiter, r Result) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.Image != nil {
		q.move(w, r.Document)
	}
	d := w.queue
	w.ID, w.place = r.ID, r.Place
	if r.Sent != 0 {
		w.sent = r.Sent
	}
	if r.Held != uuid.Nil {
		d.observe(r.Image, w.sent)
		d.granted(w, r.Held)
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

// Leave removes the waiter from its queue. It returns the step that came too late: an
// answer or a lease that the waiter has not taken.
func (q *Queues) Leave(w *Waiter) (late Step) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.state == answered {
		late = w.step
	}
	d := w.queue
	d.set(w, left)
	d.remove(w)
	d.judge()
	q.drop(d)
	return late
}

// Fail ends the waits of the same document with the error of one waiter, which could
// not reach a server for long.
func (q *Queues) Fail(failed *Waiter, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := failed.queue
	for _, t := range d.tags {
		for _, w := range t.asleep.all() {
			q.visits++
			if w != failed {
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
		n += len(t.asleep.all())
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
		d = newQueue(q.Rules, q.Longest, q.Now, &q.visits, q.Leases, document)
		q.queues[document] = d
	}
	return d
}

// drop removes a queue without waiters. It keeps a queue that had waiters while
// the process has the lock, and a queue whose entry may be joined: other waiters
// will come.
func (q *Queues) drop(d *queue) {
	if q.queues[d.document] != d { // another one stands there by now
		return
	}
	if len(d.tags) == 0 && len(d.shared) == 0 && (len(d.view.own) == 0 || !d.contended) {
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
		if len(d.tags) == 0 && expired && !d.sharing() {
			delete(q.queues, document)
		}
	}
	q.swept = len(q.queues)
}
