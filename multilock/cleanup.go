package multilock

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
)

// Bounds of the clean-up.
const (
	mostCleanUps = 8   // commands at a time
	mostIDs      = 500 // in one command
	firstRest    = 50 * time.Millisecond
	longestRest  = time.Second // of what is owed, until a command is answered
	longOverload = 10 * time.Second
	longRefusal  = time.Minute
)

// cleanup removes in the background the entries of acquires without a lease. It
// sends one command at a time for each document and tag, and a few at a time in
// all. An entry that was seen is removed once. An attempt of unknown outcome may
// be executed later. So its id is removed again and again, with pauses that
// double, until its entry was found or would have expired, and once more when the
// Locker is closed. Until a server answers, an entry stays owed for as long as it
// may live, and rests with what else its group owes. While no server can be reached,
// nothing is sent, and one timer looks for a server on behalf of all. While the server is overloaded, one command is sent for
// all. The cleanup has no goroutine while nothing is due.
type cleanup struct {
	locker *Locker

	mu      sync.Mutex
	groups  map[string]*group
	ready   []*group
	workers int
	asleep  *time.Timer   // until a server can be reached; nil while one can
	rest    time.Duration // the last sleep; 0 after an answer
	closed  bool
}

// group is the leftovers of one document and tag.
type group struct {
	key   string
	place engine.Filter // the document's pin, or what the attempts could find
	tag   string
	left  map[uuid.UUID]*leftover
	timer *time.Timer
	taken bool          // ready, or a worker's
	rest  time.Duration // the last one for want of an answer; 0 after an answer
	until time.Time     // its end
}

// life is how long a request's entry lives if it is not extended.
func (c *cleanup) life(r engine.Request) time.Duration {
	e := c.locker.engine
	return max(e.LeaseBy(r.Tag, r.Terms), r.Terms.Least, e.Wait(r.Tag)) + e.Tolerance
}

// add removes the entries of a request, whose last attempt was sent before the given
// time. It calls the leftover's answers, in another goroutine, once a command was
// answered, or with an error after the RetryLimit of any other command. The removal
// goes on after that.
func (c *cleanup) add(place engine.Filter, r engine.Request, last time.Time, l leftover) {
	e := c.locker.engine
	bounds := e.Attempt(e.LeaseBy(r.Tag, r.Terms))
	l.id, l.until, l.timeout = r.ID, last.Add(c.life(r)), bounds.Timeout
	now := time.Now()
	l.due, l.rest, l.answerBy = now, firstRest, now.Add(bounds.RetryLimit)
	c.mu.Lock()
	defer c.mu.Unlock()
	key := groupKey(place, r.Tag)
	p := c.groups[key]
	if p == nil {
		p = &group{key: key, place: place, tag: r.Tag, left: map[uuid.UUID]*leftover{}}
		c.groups[key] = p
	}
	if known := p.left[l.id]; known != nil {
		l.seen, l.entries = l.seen || known.seen, l.entries+known.entries
		if known.until.After(l.until) {
			l.until = known.until
		}
		l.answers, l.reported, l.held = append(known.answers, l.answers...), known.reported, known.held
	}
	p.left[l.id] = &l
	switch {
	case c.closed:
		l.last = true // a command that is under way was sent before
		c.hold(&l)
	case p.rest > 0:
		l.due = now.Add(min(p.until.Sub(now), longOverload))
	}
	if !p.taken {
		c.schedule(p, now)
	}
}

// groupKey is equal for equal documents and tags.
func groupKey(place engine.Filter, tag string) string {
	if place.Pin == nil {
		return tag + "\x00" + place.Key()
	}
	return tag + "\x00" + waitqueue.Key(place.Pin)
}

// take gives a group to a worker.
func (c *cleanup) take(p *group) {
	if p.taken {
		return
	}
	p.taken = true
	if p.timer != nil {
		p.timer.Stop()
	}
	c.ready = append(c.ready, p)
	c.start(1)
}

// start starts up to n more workers, unless no server can be reached.
func (c *cleanup) start(n int) {
	for ; n > 0 && c.asleep == nil && c.workers < mostCleanUps; n-- {
		c.workers++
		c.locker.ops.Go(c.work)
	}
}

func (c *cleanup) work() {
	for {
		d := c.next()
		if d == nil {
			return
		}
		for _, call := range c.answered(d, c.send(d)) {
			call()
		}
	}
}

// due is what one command removes.
type due struct {
	*group
	ids     []uuid.UUID
	timeout time.Duration
	awaited bool // somebody waits for the answer, and goes on by it
}

// next is a group with what is due in it, or nil.
func (c *cleanup) next() *due {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ready) == 0 || c.asleep != nil {
		c.workers--
		return nil
	}
	d := &due{group: c.ready[0]}
	c.ready = slices.Delete(c.ready, 0, 1)
	for id, l := range d.left {
		if !l.due.After(time.Now()) && len(d.ids) < mostIDs {
			l.last = false
			d.awaited = d.awaited || len(l.answers) > 0
			d.ids, d.timeout = append(d.ids, id), max(d.timeout, l.timeout)
		}
	}
	return d
}

// sent is what a command was answered with.
type sent struct {
	found   []uuid.UUID
	err     error // nil if it was answered
	refused bool
	away    bool // no server can be reached, or it has too much to do
	trouble engine.Trouble
	jitter  float64 // of the rest after it, from 0 to 1
}

// send sends the command, if a server can be reached.
func (c *cleanup) send(d *due) (s sent) {
	if len(d.ids) == 0 {
		return s
	}
	s.jitter = rand.Float64()
	err := c.locker.engine.Unreachable()
	if err == nil {
		_, err = attempt.Once(context.Background(), d.timeout, func(ctx context.Context) (err error) {
			s.found, err = c.locker.engine.Remove(ctx, d.place, d.tag, d.ids)
			if err == nil && d.awaited && len(s.found) == 0 {
				err = c.locker.engine.NoneOf(ctx, d.place, d.tag, d.ids)
			}
			return err
		})
	}
	if err == nil {
		return s
	}
	failure := engine.AsFailure(err)
	s.err, s.refused, s.trouble = explain("release", err), failure.Refused(), failure.Trouble
	if !failure.Nothing {
		s.err = fmt.Errorf("%w: release: %w", doclock.ErrOutcomeUnknown, err)
	}
	s.away = s.trouble == engine.Overloaded || c.locker.engine.Unreachable() != nil
	return s
}

// answered applies an answer to the leftovers that were due, and returns the calls to
// make without the mutex.
func (c *cleanup) answered(d *due, s sent) (calls []func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, id := range d.ids {
		found := slices.Contains(s.found, id)
		if d.place.Pin == nil && len(s.found) > 0 && !found { // it may be in another document: at once again
			continue
		}
		calls = append(calls, c.settle(d.group, d.left[id], found, s, now)...)
	}
	if s.away {
		return append(calls, c.sleep(d.group, s, now)...)
	}
	if len(d.ids) > 0 {
		c.pause(d.group, s, now)
	}
	c.schedule(d.group, now)
	if s.err == nil && len(d.ids) > 0 && c.rest > 0 {
		c.rest = 0
		c.start(len(c.ready))
	}
	return calls
}

// settle applies an answer to one leftover. Without an answer the leftover stays owed
// until its entry's life is over.
func (c *cleanup) settle(p *group, l *leftover, found bool, s sent, now time.Time) (calls []func()) {
	dead, panicked := !now.Before(l.until), engine.PanicIn(s.err) != nil
	over := dead || c.closed && s.err == nil && !l.last // no other command follows
	l.err = s.err
	switch {
	case s.err == nil:
		l.count(found)
		if pin := p.place.Pin; pin != nil {
			calls = append(calls, func() {
				c.locker.queues.Removed(waitqueue.Key(pin), l.id)
				c.locker.idle.released()
			})
		}
	case !l.reported && (over || s.refused || panicked):
		l.reported = true
		calls = append(calls, func() { c.locker.emitFailed(documentOf(p.place.Pin), p.tag, l.id, s.err) })
	}
	if over || s.err == nil || s.refused || panicked || !now.Before(l.answerBy) {
		for _, answer := range l.answers {
			calls = append(calls, func() { answer(s.err) })
		}
		l.answers = nil
	}
	if l.held && (over || l.entries <= 0 || (s.err == nil || s.refused) && !l.last || !now.Before(l.answerBy)) {
		l.held = false
		calls = append(calls, c.locker.ops.Leave)
	}
	if over || l.entries <= 0 {
		delete(p.left, l.id)
		return calls
	}
	if s.err == nil {
		l.due, l.rest = now.Add(min(l.rest, l.until.Sub(now))), 2*l.rest
	}
	if l.last { // what was answered was sent before Close
		l.due = now
	}
	return calls
}

// pause has all that the group owes rest together after a command that got no answer.
func (c *cleanup) pause(p *group, s sent, now time.Time) {
	if s.err == nil {
		p.rest = 0
		return
	}
	longest := longestRest
	if s.refused || s.trouble == engine.WriteConflict && !c.closed {
		longest = longRefusal
	}
	p.rest = min(max(2*p.rest, firstRest), longest)
	p.until = now.Add(s.pause(p.rest))
	for _, l := range p.left {
		if !l.last {
			l.due = now.Add(max(l.due.Sub(now), min(p.until.Sub(now), l.until.Sub(now))))
		}
	}
}

// pause is a rest after the answer. Clients that have met a server in trouble together
// don't ask together again.
func (s sent) pause(rest time.Duration) time.Duration {
	if s.trouble != engine.NoTrouble {
		rest += time.Duration(float64(rest) * s.jitter / 2)
	}
	return rest
}

// schedule lets a group rest until something is due.
func (c *cleanup) schedule(p *group, now time.Time) {
	p.taken = false
	if len(p.left) == 0 {
		delete(c.groups, p.key)
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
		if c.groups[p.key] == p {
			c.take(p)
		}
	})
}
