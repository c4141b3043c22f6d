package multilock

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// queue holds the waiters of one Locker, in a line for each document. It is
// the [lease.Succession] of the Locker's leases.
type queue struct {
	engine *engine.Engine
	leases *lease.Holds

	mu    sync.Mutex
	lines map[string]*line
	swept int    // lines that the last sweep left
	count uint64 // of arrivals
}

// key names a document's line by its _id and its shard key: in a sharded
// collection, two documents may have one _id. Numbers that are equal to the
// server are equal here.
func key(pin engine.Pin) string {
	var b strings.Builder
	for _, field := range pin {
		v := field.Value.(bson.RawValue)
		if n, number := v.AsInt64OK(); number {
			if f, float := v.DoubleOK(); !float || f == float64(n) {
				v.Type, v.Value, _ = bson.MarshalValue(n) // an int64 always marshals
			}
		}
		b.Write(binary.LittleEndian.AppendUint32([]byte{byte(v.Type)}, uint32(len(v.Value))))
		b.Write(v.Value)
	}
	return b.String()
}

// join puts an acquire at the end of its document's line. t is its ticket, if
// it waits in the document already, and seen what it was answered, or nil.
func (q *queue) join(a *acquisition, document string, t *Ticket, seen *engine.Image) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.line(document)
	q.count++
	w := &waiter{a: a, queue: q, line: l, ticket: t, order: q.count, asked: time.Now(), nudge: make(chan struct{}, 1)}
	l.push(w)
	l.see(seen, a.begun)
	l.judge()
	return w
}

// line is the document's, made anew if there is none.
func (q *queue) line(document string) *line {
	l := q.lines[document]
	if l == nil {
		q.sweep()
		l = &line{document: document, engine: q.engine, picture: picture{leases: q.leases}, tags: map[string]*tagLine{}, shared: map[string]sharedEntry{}, burst: firstBurst}
		q.lines[document] = l
	}
	return l
}

// leave takes the waiter out of its line. What is still handed over to it is
// given back.
func (q *queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.state == answered {
		w.forsake(w.answer)
	}
	l := w.line
	l.set(w, left)
	l.remove(w)
	l.judge()
	q.drop(l)
}

// turn says whether the waiter may ask now, with the answer of a handoff if
// there was one; or else how long to wait for a nudge, without end if negative.
func (q *queue) turn(w *waiter) (may bool, handed *answer, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch w.state {
	case asking:
		return true, nil, 0
	case answered:
		w.line.set(w, taking)
		return true, &w.answer, 0
	case promised:
		return false, nil, -1
	default:
		w.line.contended = true
		return false, nil, w.line.pause(w)
	}
}

// poll lets the waiter ask though nobody told it to: its pause is over.
func (q *queue) poll(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.line.ask(w)
}

// settle takes in what a waiter was answered that asked or was handed the lock.
func (q *queue) settle(w *waiter, img *engine.Image, held *lease.Handle) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if img != nil {
		q.move(w, key(w.a.locker.engine.Pin(img)))
	}
	l := w.line
	if held != nil {
		l.see(img, w.sent)
		l.granted(w, held)
	} else {
		l.refused(w, img)
	}
	l.set(w, asleep)
	w.asked = time.Now()
	l.judge()
}

// move stands a waiter in the line of the document that it was answered with,
// where leases are given back to. Its filter has led it to another one if a
// collation takes two values for one.
func (q *queue) move(w *waiter, document string) {
	if document == w.line.document {
		return
	}
	state := w.state
	w.line.remove(w)
	w.line.judge()
	q.drop(w.line)
	w.line = q.line(document)
	w.state = asleep
	w.line.push(w)
	w.line.set(w, state)
}

// Next implements [lease.Succession].
func (q *queue) Next(g engine.Grant) lease.Successor {
	document := key(g.Pin)
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[document]
	if l == nil {
		return nil
	}
	w := l.heir(g.ID)
	if w == nil {
		return nil
	}
	l.forget(g.ID)
	l.set(w, promised)
	w.sent, w.news = time.Now(), l.picture.news
	return &successor{waiter: w, from: g.ID, request: engine.Successor{
		Request: engine.Request{Tag: w.a.request.Tag, ID: w.a.request.ID, Document: w.a.request.Document},
		Waiting: w.ticket != nil,
	}}
}

// successor is a waiter that the lock is being handed over to.
type successor struct {
	waiter  *waiter
	from    uuid.UUID // the entry that is released
	request engine.Successor
}

// Request implements [lease.Successor].
func (s *successor) Request() engine.Successor { return s.request }

// Answer implements [lease.Successor].
func (s *successor) Answer(got engine.Answer) {
	s.waiter.queue.handed(s.waiter, s.from, answer{Answer: got})
}

// handed brings the answer of a handoff, of which the giver's entry is gone.
func (q *queue) handed(w *waiter, giver uuid.UUID, got answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := w.line
	l.forgot(giver)
	if w.state == left {
		w.forsake(got)
	} else {
		w.answer = got
		l.set(w, answered)
		if got.Image != nil && got.Outcome == engine.Granted && w.arrivedAs(got.Image) {
			l.picture.owns(w.a.request.ID)
		}
		w.wake()
	}
	l.see(got.Image, w.sent)
	l.judge()
	q.drop(l)
}

// Released implements [lease.Succession].
func (q *queue) Released(g engine.Grant) {
	document := key(g.Pin)
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[document]
	if l == nil {
		return
	}
	l.forgot(g.ID)
	l.rest()
	l.judge()
	q.drop(l)
}

// removed is told that an entry of a waiter who gave up is gone from the
// document: it kept others back.
func (q *queue) removed(document string, id uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[document]
	if l == nil {
		return
	}
	l.forgot(id)
	l.judge()
	q.drop(l)
}

// known is the conflict that an acquire meets by what is known of its document,
// or nil where nothing is.
func (q *queue) known(a *acquisition) error {
	document := a.document
	if a.seen != nil {
		document = key(q.engine.Pin(a.seen))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[document]
	if l == nil {
		return nil
	}
	img := l.picture.now()
	if img == nil {
		return nil
	}
	if blocking, _ := q.engine.InTheWay(img, a.request.Tag, nil); len(blocking) == 0 {
		return nil
	}
	return a.conflict(img, nil)
}

// fail has all who wait for the document give up, since one of them has found
// for long that no server can be reached.
func (q *queue) fail(failed *waiter, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := failed.line
	for _, t := range l.tags {
		for e := t.Front(); e != nil; e = e.Next() {
			if w := e.Value.(*waiter); w != failed && w.state == asleep {
				w.answer = answer{err: err}
				l.set(w, answered)
				w.wake()
			}
		}
	}
}

// drop forgets a line that nobody waits in. One that had waiters, or whose
// entry may be joined, and has the lock, is kept: others will come.
func (q *queue) drop(l *line) {
	if q.lines[l.document] != l { // another one stands there by now
		return
	}
	if len(l.tags) == 0 && len(l.shared) == 0 && (len(l.picture.own) == 0 || !l.contended) {
		delete(q.lines, l.document)
	}
}

// sweep drops lines whose leases ran out without a release. It looks at each
// as often as their number doubles.
func (q *queue) sweep() {
	if len(q.lines) < 2*q.swept+16 {
		return
	}
	for document, l := range q.lines {
		img := l.picture.now()
		expired := img == nil || !slices.ContainsFunc(img.Lock.Entries, func(e engine.Entry) bool { return e.Expires.After(img.Now) })
		if len(l.tags) == 0 && expired && !l.sharing() {
			delete(q.lines, document)
		}
	}
	q.swept = len(q.lines)
}
