package waitqueue

import (
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/google/uuid"
)

// The queues are the [lease.Succession] of their Locker's leases.
var _ lease.Succession = (*Queues)(nil)

// successor is a waiter that a lease is being handed over to.
type successor struct {
	queues  *Queues
	waiter  *Waiter
	from    uuid.UUID // the entry that is released
	request engine.Successor
}

// Next implements [lease.Succession].
func (q *Queues) Next(g engine.Grant) lease.Successor {
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
	return &successor{queues: q, waiter: w, from: g.ID, request: engine.Successor{
		Request: engine.Request{Tag: w.Tag, ID: w.ID, Document: w.Document, Terms: w.Terms},
		Waiting: w.place.taken(),
	}}
}

// Request implements [lease.Successor].
func (s *successor) Request() engine.Successor { return s.request }

// Answer implements [lease.Successor].
func (s *successor) Answer(got engine.Answer) {
	turn := Turn{Kind: Answer, Answer: got}
	if s.queues.handOver(s, turn) {
		s.waiter.Late(turn)
	}
}

// handOver gives the waiter its answer, and reports whether it comes too late.
// The released entry has left the document.
func (q *Queues) handOver(s *successor, turn Turn) (late bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w, d := s.waiter, s.waiter.queue
	d.released(s.from)
	if late = w.state == left; !late {
		w.turn = turn
		d.set(w, answered)
		if turn.Answer.Image != nil && turn.Answer.Outcome == engine.Granted {
			d.view.owns(w.ID)
		}
		w.wake()
	}
	d.observe(turn.Answer.Image, w.sent)
	d.judge()
	q.drop(d)
	return late
}

// Released implements [lease.Succession].
func (q *Queues) Released(g engine.Grant) {
	document := Key(g.Pin)
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.queues[document]; d != nil {
		d.released(g.ID)
		d.run.yield()
		d.judge()
		q.drop(d)
	}
}

// Removed notes that the entry of a waiter that gave up is gone from the document.
// It may have blocked others.
func (q *Queues) Removed(document string, id uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.queues[document]; d != nil {
		d.released(id)
		d.judge()
		q.drop(d)
	}
}
