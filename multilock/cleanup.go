package multilock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Bounds of the clean-up.
const (
	mostCleanUps   = 8   // commands at a time
	mostIDs        = 500 // in one command
	firstRest      = 50 * time.Millisecond
	longestFailing = time.Second // the pause after a command without an answer
)

// cleanup removes in the background the entries of acquires without a lease. It
// sends one command at a time for each document and tag, and a few at a time in
// all. An entry that was seen is removed once. An attempt of unknown outcome may
// be executed later. So its id is removed again and again, with pauses that
// double, until its entry was found or would have expired, and once more when the
// Locker is closed. It has no goroutine while nothing is due.
type cleanup struct {
	engine   *engine.Engine
	commands engine.Commands
	ops      *attempt.Group

	removed func(document string, id uuid.UUID) // is told of every entry that is not there any more

	// failed is told of every clean-up that failed for good. Without a pin the
	// document is not known.
	failed func(document bson.RawValue, tag string, id uuid.UUID, err error)

	mu      sync.Mutex
	spots   map[string]*spot
	ready   []*spot
	workers int
	closed  bool
}

// spot is one document and tag with leftovers.
type spot struct {
	key   string
	pin   engine.Pin // nil where only the server knows the document
	tag   string
	left  map[uuid.UUID]*leftover
	timer *time.Timer
	taken bool // ready, or a worker's
}

func newCleanup(e *engine.Engine, commands engine.Commands, ops *attempt.Group, removed func(document string, id uuid.UUID), failed func(document bson.RawValue, tag string, id uuid.UUID, err error)) *cleanup {
	return &cleanup{engine: e, commands: commands, ops: ops, removed: removed, failed: failed, spots: map[string]*spot{}}
}

// life is how long a request's entry lives if it is not extended.
func (c *cleanup) life(r engine.Request) time.Duration {
	return max(c.engine.LeaseBy(r.Tag, r.Terms), r.Terms.Least, c.engine.Wait(r.Tag)) + c.engine.Tolerance
}

// add has a leftover removed. Its answers are called, from another goroutine,
// after the first command that was answered, or with the error of the last.
func (c *cleanup) add(pin engine.Pin, tag string, l leftover) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := spotKey(pin, tag)
	p := c.spots[key]
	if p == nil {
		p = &spot{key: key, pin: pin, tag: tag, left: map[uuid.UUID]*leftover{}}
		c.spots[key] = p
	}
	if known := p.left[l.id]; known != nil {
		l.seen, l.entries = l.seen || known.seen, l.entries+known.entries
		if known.until.After(l.until) {
			l.until = known.until
		}
		l.answers, l.owed = append(known.answers, l.answers...), known.owed
	}
	l.due, l.rest = time.Now(), firstRest
	c.owe(&l)
	p.left[l.id] = &l
	c.take(p)
}

// spotKey is equal for equal documents.
func spotKey(pin engine.Pin, tag string) string {
	return tag + "\x00" + waitqueue.Key(pin)
}

// owe has Close wait for the leftover.
func (c *cleanup) owe(l *leftover) {
	if !l.owed {
		l.owed = true
		c.ops.Enter()
	}
}

// close has all leftovers removed once more, and none later.
func (c *cleanup) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, p := range c.spots {
		for _, l := range p.left {
			c.owe(l)
			l.due, l.last = time.Now(), true
		}
		c.take(p)
	}
}

// take hands a spot to a worker.
func (c *cleanup) take(p *spot) {
	if p.taken {
		return
	}
	p.taken = true
	if p.timer != nil {
		p.timer.Stop()
	}
	c.ready = append(c.ready, p)
	if c.workers < mostCleanUps {
		c.workers++
		c.ops.Go(c.work)
	}
}

func (c *cleanup) work() {
	for {
		p, ids := c.next()
		if p == nil {
			return
		}
		for _, answer := range c.answered(p, ids, c.send(p, ids)) {
			answer()
		}
	}
}

// next is a spot with what is due there, or nil.
func (c *cleanup) next() (*spot, []uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ready) == 0 {
		c.ready = nil
		c.workers--
		return nil, nil
	}
	p := c.ready[0]
	c.ready = c.ready[1:]
	var ids []uuid.UUID
	for id, l := range p.left {
		if !l.due.After(time.Now()) && len(ids) < mostIDs {
			l.last = false
			ids = append(ids, id)
		}
	}
	return p, ids
}

// sent is what a command was answered with.
type sent struct {
	found []uuid.UUID
	err   error // nil where it was answered
	never bool  // it is of no use to send it again
}

func (c *cleanup) send(p *spot, ids []uuid.UUID) (s sent) {
	if len(ids) == 0 {
		return s
	}
	unsure, err := attempt.Once(context.Background(), c.engine.Attempt(c.engine.Lease(p.tag)), func(ctx context.Context) (err error) {
		s.found, err = c.commands.Remove(ctx, p.pin, p.tag, ids)
		return err
	})
	switch {
	case err == nil:
	case unsure == nil:
		s.err, s.never = explain("release", err), true
	default:
		s.err = fmt.Errorf("%w: release: %w", doclock.ErrOutcomeUnknown, unsure)
	}
	return s
}

// answered applies an answer to the leftovers that were due, and returns whom to
// tell.
func (c *cleanup) answered(p *spot, ids []uuid.UUID, s sent) (tell []func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, id := range ids {
		l := p.left[id]
		found := slices.Contains(s.found, id)
		switch {
		case p.pin == nil && len(s.found) > 0 && !found: // it may be in another document: at once again
			continue
		case s.err == nil:
			l.count(found)
			if p.pin != nil {
				tell = append(tell, func() { c.removed(waitqueue.Key(p.pin), id) })
			}
			l.due = now.Add(min(l.rest, max(0, l.until.Sub(now))))
		case !s.never && now.Before(l.until):
			l.due = now.Add(min(l.rest, longestFailing))
			l.rest *= 2
			continue
		default:
			l.entries = 0
			tell = append(tell, func() { c.failed(documentOf(p.pin), p.tag, id, s.err) })
		}
		for _, answer := range l.answers {
			tell = append(tell, func() { answer(s.err) })
		}
		if l.last && l.entries > 0 { // what was answered was sent before Close
			l.answers, l.due = nil, now
			continue
		}
		if l.owed {
			tell = append(tell, c.ops.Leave)
		}
		l.answers, l.owed, l.rest = nil, false, 2*l.rest
		if l.entries <= 0 || c.closed || !now.Before(l.until) {
			delete(p.left, id)
		}
	}
	c.schedule(p, now)
	return tell
}

// schedule lets a spot rest until something is due.
func (c *cleanup) schedule(p *spot, now time.Time) {
	p.taken = false
	if len(p.left) == 0 {
		delete(c.spots, p.key)
		return
	}
	rest := time.Duration(math.MaxInt64)
	for _, l := range p.left {
		rest = min(rest, l.due.Sub(now))
	}
	if rest <= 0 {
		c.take(p)
		return
	}
	p.timer = time.AfterFunc(rest, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.spots[p.key] == p {
			c.take(p)
		}
	})
}

// release releases a lease in the background, which no caller has got. So it
// keeps nobody out any longer.
func (l *Locker) release(held *lease.Handle, answer func(error)) {
	held.Unused()
	l.ops.Go(func() {
		err := held.Release(context.Background())
		l.cleanedUp(held, err)
		if answer != nil {
			answer(err)
		}
	})
}

// cleanedUp records how a release in the background ended.
func (l *Locker) cleanedUp(held *lease.Handle, err error) {
	if err != nil && !errors.Is(err, doclock.ErrLost) {
		l.cleanup.failed(held.DocumentID(), held.Tag(), held.ID(), err)
	}
}
