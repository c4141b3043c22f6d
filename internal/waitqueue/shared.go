package waitqueue

import (
	"context"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// unchecked is how long after an image a shared entry is joined without a check
// of the document. A waiter of another process that the tag respects waits longer
// by that time. While holders overlap, a process checks once in that time.
const unchecked = 200 * time.Millisecond

// sharedEntry is an entry that more holders of this process may join.
type sharedEntry struct {
	id    uuid.UUID
	seen  time.Duration // when no entry was in the way of its tag
	check *Check        // that is under way for all who don't want the document, or nil
}

// Check is a command that shows whether a shared entry may be joined: its
// caller sends it, and calls End.
type Check struct {
	ID       uuid.UUID // of the entry
	queues   *Queues
	document string
	request  Request
	over     chan struct{} // closed at the end; nil if no other request waits for it
}

// Join finds an entry of this process that a request may join: a lease of it is
// reserved, or a check must come first. With neither, the request asks for an entry of
// its own. For the requests that don't want the document, at most one check is under
// way; the others wait for its end.
func (q *Queues) Join(ctx context.Context, document string, r Request) (entry uuid.UUID, _ *Check, _ error) {
	entry, own, others := q.join(document, r)
	if others == nil {
		return entry, own, nil
	}
	select {
	case <-others.over:
		return q.joined(document, r), nil, nil
	case <-ctx.Done():
		return uuid.Nil, nil, attempt.Ended(ctx)
	}
}

// join returns one of three: an entry to join, a check to send, a check to wait for.
func (q *Queues) join(document string, r Request) (entry uuid.UUID, own, others *Check) {
	if !r.Shared {
		return uuid.Nil, nil, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.queues[document]
	if d == nil {
		return uuid.Nil, nil, nil
	}
	s := d.shared[r.Tag]
	switch entry = d.join(r); {
	case entry != uuid.Nil || s == nil:
		return entry, nil, nil
	case r.Document:
		return uuid.Nil, &Check{ID: s.id}, nil
	case s.check != nil:
		return uuid.Nil, nil, s.check
	default:
		s.check = &Check{ID: s.id, queues: q, document: document, request: r, over: make(chan struct{})}
		return uuid.Nil, s.check, nil
	}
}

// joined is the entry to join after another request's check, or none.
func (q *Queues) joined(document string, r Request) (entry uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.queues[document]; d != nil {
		return d.join(r)
	}
	return uuid.Nil
}

// End records the check's answer, or nil, and wakes the requests that wait for
// it.
func (c *Check) End(img *engine.Image) {
	if c.over == nil {
		return
	}
	c.queues.mu.Lock()
	defer c.queues.mu.Unlock()
	defer close(c.over)
	d := c.queues.queues[c.document]
	if d == nil {
		return
	}
	if s := d.shared[c.request.Tag]; s != nil && s.check == c {
		s.check = nil
	}
	d.observe(img, c.request.Begun)
	d.judge()
}

// Tried records the result of a shared request that was in no queue.
func (q *Queues) Tried(document string, r Request, held uuid.UUID, img *engine.Image) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.queue(document)
	d.observe(img, r.Begun)
	if held == r.ID && !d.crossed(r.Tag) {
		d.arrived(r)
	}
	d.judge()
	q.drop(d)
}

// open lets others join a granted entry. The waiters in the queue may join, since
// they waited for this answer instead of taking places in the document. Later
// requests may join until an image shows an entry in the tag's way.
func (d *queue) open(r Request) {
	if !r.Shared {
		return
	}
	d.shared[r.Tag] = &sharedEntry{id: r.ID, seen: d.clock()}
	d.admit(r.Tag)
	if d.crossed(r.Tag) {
		delete(d.shared, r.Tag)
	}
}

// crossed says that the view shows an entry in the tag's way.
func (d *queue) crossed(tag string) bool {
	if d.view.image == nil {
		return false
	}
	blocking, _ := engine.InTheWay(d.rules, d.view.image, tag, nil)
	return len(blocking) > 0
}

// review closes the shared entries whose tag is blocked in the view.
func (d *queue) review() {
	for tag, s := range d.shared {
		if d.crossed(tag) {
			delete(d.shared, tag)
		} else {
			s.seen = d.clock()
		}
	}
}

// close lets no request join an entry any more.
func (d *queue) close(id uuid.UUID) {
	for tag, s := range d.shared {
		if s.id == id {
			delete(d.shared, tag)
		}
	}
}

// sharing says that this process has a valid lease that may be joined.
func (d *queue) sharing() bool {
	for _, s := range d.shared {
		if d.leases.Valid(s.id) {
			return true
		}
	}
	return false
}

// join is the entry of which a lease is reserved for a request that needs no command,
// or none.
func (d *queue) join(r Request) (entry uuid.UUID) {
	s := d.shared[r.Tag]
	if s == nil || !r.Shared || r.Document || d.clock()-s.seen > unchecked || !d.leases.Reserve(s.id) {
		return uuid.Nil
	}
	return s.id
}

// admit joins waiters that need no command. If one can't join, none can.
func (d *queue) admit(tag string) {
	t := d.tags[tag]
	if t == nil {
		return
	}
	sharers := t.asleep.sharers(false)
	for {
		i := slices.IndexFunc(sharers.waiters, func(w *Waiter) bool { *d.visits++; return !w.place.taken() })
		if i < 0 {
			return
		}
		w := sharers.waiters[i]
		entry := d.join(w.Request)
		if entry == uuid.Nil {
			return
		}
		w.step = Step{Kind: Joined, Entry: entry}
		d.set(w, answered)
		d.remove(w)
		w.wake()
	}
}

// gathers says that a request should wait for the answer to another request of
// its tag.
func (d *queue) gathers(r Request) bool {
	return r.Shared && (!r.Document || d.shared[r.Tag] == nil)
}
