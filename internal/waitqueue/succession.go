package waitqueue

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// This file has the events of entries that leave the document, or stay there for
// others.

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
	q.promised[g.ID] = w
	return &engine.Successor{
		Request: engine.Request{Tag: w.Tag, ID: w.ID, Document: w.Document, Terms: w.Terms},
		Waiting: w.place.taken(),
	}
}

// HandedOver gives the promised waiter its answer, or returns the waiter if it has left
// and the answer comes too late. The released entry has left the
// document, or may have.
func (q *Queues) HandedOver(from uuid.UUID, got engine.Answer) (late *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.promised[from]
	delete(q.promised, from)
	d := w.queue
	d.released(from)
	if w.state == left {
		late = w
	} else {
		w.step = Step{Kind: Answer, Answer: got}
		d.set(w, answered)
		if got.Image != nil && got.Outcome == engine.Granted {
			d.view.owns(w.ID)
		}
		w.wake()
	}
	d.observe(got.Image, w.sent)
	d.judge()
	q.drop(d)
	return late
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
		d.close(g.ID)
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
