package multilock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
)

// Bounds of the clean-up.
const (
	mostCleanUps = 8   // commands at a time
	mostIDs      = 500 // in one command
	firstRest    = 50 * time.Millisecond
	longestRest  = 700 * time.Millisecond // of what a document owes, until a command is answered; with the jitter a second
	longOverload = 10 * time.Second
	longRefusal  = time.Minute
)

// cleanup removes in the background the entries of acquires without a lease. It sends one
// command at a time for each document and tag, and a few at a time in all. An entry that
// was seen is removed once. An attempt of unknown outcome may be executed later: its id is
// removed again and again, with pauses that double, until its entry was found or would
// have expired, and once more when the Locker is closed. While no server can be reached,
// or it is overloaded, one command is sent for all. There is no goroutine while nothing
// is due.
type cleanup struct {
	locker *Locker

	mu      sync.Mutex
	debts   map[string]*debt
	ready   []*debt
	running int           // commands
	rest    time.Duration // of all, before the one command; 0 while a server takes commands
	asleep  *time.Timer   // during that rest, or nil
	closed  bool
	closeBy time.Time // until when Close waits for answers, while it does
}

// debt is what one document owes under one tag.
type debt struct {
	key   string
	place engine.Filter // the document's pin, or what the attempts could find
	tag   string
	ids   map[uuid.UUID]*leftover
	timer *time.Timer   // until the next command; nil if it is ready or under way
	since time.Time     // when the last id came, or the last command had no answer
	rest  time.Duration // the last one for want of an answer; 0 after an answer
}

// leftover is the id of an acquire that ended without a lease, and the entries
// that the document may have by it.
type leftover struct {
	seen    bool      // an answer showed the entry
	entries int       // how many copies may still appear: one if seen, and one for each attempt of unknown outcome
	until   time.Time // when an entry that is not extended has expired
	timeout time.Duration

	answers  []func(error) // of who waits for a command
	answerBy time.Time     // they wait no longer
	proof    bool          // they go on by the answer
	err      error         // of the last command
	reported bool          // that it has failed
}

// life is how long a request's entry lives if it is not extended.
func (c *cleanup) life(r engine.Request) time.Duration {
	e := c.locker.engine
	return max(e.LeaseBy(r.Tag, r.Terms), r.Terms.Least, e.Wait(r.Tag)) + e.Tolerance
}

// discard removes the entry of a request, if one was seen or may still be made. It calls
// answer, in another goroutine, once a command was answered, or with an error after the
// RetryLimit of any other command. The removal goes on after that. Without a pin it looks by
// what else the filter demands.
func (c *cleanup) discard(f engine.Filter, r engine.Request, late unsure, seen bool, answer func(error)) {
	l, last := leftover{seen: seen, entries: late.n}, late.last
	if seen {
		l.entries++
		last = time.Now()
	}
	if answer != nil {
		l.answers, l.proof = []func(error){answer}, true
	}
	if l.entries > 0 {
		c.add(f, r, last, l)
	} else if answer != nil {
		answer(nil)
	}
}

// takeBack releases a lease that no caller has got, of an acquire with this request, so that
// it keeps nobody out any longer: one that is lost does not. An observer gets ctx's values.
func (c *cleanup) takeBack(ctx context.Context, r engine.Request, held *lease.Lease) error {
	held.Unused()
	return c.released(r, held, held.Unlock(attempt.Detached(ctx)))
}

// release is takeBack in the background.
func (c *cleanup) release(ctx context.Context, r engine.Request, held *lease.Lease) {
	c.locker.ops.Go(func() { _ = c.takeBack(ctx, r, held) })
}

// released takes over what a release in the background has not removed, and returns why: a
// lost lease is gone.
func (c *cleanup) released(r engine.Request, held *lease.Lease, err error) error {
	if err == nil || errors.Is(err, doclock.ErrLost) {
		return nil
	}
	r.Tag, r.ID = held.Tag(), held.ID()
	if panicked := engine.PanicIn(err); panicked != nil {
		c.locker.emitFailed(held.DocumentID(), r.Tag, r.ID, panicked)
	}
	_, pin := held.Place()
	c.add(engine.Filter{Pin: pin}, r, time.Now(), leftover{seen: true, entries: 1})
	return err
}

// add owes the entries of a request, whose last attempt was sent before the given time.
func (c *cleanup) add(place engine.Filter, r engine.Request, last time.Time, l leftover) {
	bounds, now := c.locker.engine.Attempt(c.locker.engine.LeaseBy(r.Tag, r.Terms)), time.Now()
	l.until, l.timeout, l.answerBy = last.Add(c.life(r)), bounds.Timeout, now.Add(bounds.RetryLimit)
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.debt(place, r.Tag)
	if known := d.ids[r.ID]; known != nil {
		l.seen, l.entries, l.proof, l.reported = l.seen || known.seen, l.entries+known.entries, l.proof || known.proof, known.reported
		l.answers = append(known.answers, l.answers...)
		if known.until.After(l.until) {
			l.until = known.until
		}
	}
	d.ids[r.ID], d.since = &l, now
	switch {
	case c.closed:
		c.hold(&l)
		c.take(d)
	case d.timer == nil:
	case d.rest > longOverload:
		d.rest = longOverload // for this one, and once
		c.pause(d, longOverload)
	case d.rest == 0:
		c.take(d)
	}
}

func (c *cleanup) debt(place engine.Filter, tag string) *debt {
	key := tag + "\x00" + waitqueue.Key(place.Pin) + place.Key()
	d := c.debts[key]
	if d == nil {
		d = &debt{key: key, place: place, tag: tag, ids: map[uuid.UUID]*leftover{}}
		c.pause(d, 0)
		c.debts[key] = d
	}
	return d
}

// pause has the next command wait.
func (c *cleanup) pause(d *debt, pause time.Duration) {
	if d.timer != nil {
		d.timer.Stop()
	}
	c.after(pause, &d.timer, func() { c.take(d) })
}

// after sets a timer, which calls f with the mutex unless another one is set, or none, when
// it has got the mutex: one that has fired can't be stopped.
func (c *cleanup) after(pause time.Duration, timer **time.Timer, f func()) {
	var own *time.Timer
	own = time.AfterFunc(pause, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if *timer == own {
			f()
		}
	})
	*timer = own
}

// take makes a debt ready for its next command.
func (c *cleanup) take(d *debt) {
	if d.timer == nil {
		return
	}
	d.timer.Stop()
	d.timer = nil
	c.ready = append(c.ready, d)
	c.start()
}

// start starts what is ready, unless all rests.
func (c *cleanup) start() {
	most := mostCleanUps
	if c.rest > 0 {
		most = 1
	}
	for ; c.asleep == nil && c.running < most && len(c.ready) > 0; c.running++ {
		d := c.ready[0]
		c.ready = c.ready[1:]
		c.locker.ops.Go(func() {
			for _, call := range c.apply(d, c.send(d)) {
				call()
			}
		})
	}
}

// wake ends the rest of all.
func (c *cleanup) wake() {
	if c.asleep != nil {
		c.asleep.Stop()
		c.asleep = nil
	}
	c.start()
}

// jittered is a rest of a client that has met a server in trouble together with others:
// they don't ask together again.
func jittered(rest time.Duration) time.Duration { return rest + rand.N(rest/2+1) }

// sent is what the commands of one debt were answered with.
type sent struct {
	asked   map[uuid.UUID]int // the ids, and how many of each one's answers this is
	found   []uuid.UUID
	err     error // nil if all were answered
	final   bool  // a repeat would fail as well
	away    bool  // no server can be reached, or it has too much to do
	trouble engine.Trouble
}

// send sends a command, if a server can be reached.
func (c *cleanup) send(d *debt) sent {
	s, timeout, proof := sent{asked: map[uuid.UUID]int{}}, time.Duration(0), false
	c.mu.Lock()
	for id, l := range d.ids {
		s.asked[id], timeout, proof = len(l.answers), max(timeout, l.timeout), proof || l.proof
	}
	if !c.closeBy.IsZero() { // many may wait behind documents that others have locked
		timeout = min(timeout, max(time.Until(c.closeBy), firstRest))
	}
	c.mu.Unlock()
	err := c.locker.engine.Unreachable()
	s.away = err != nil
	for ids := range slices.Chunk(slices.Collect(maps.Keys(s.asked)), mostIDs) {
		if err != nil {
			break
		}
		_, err = attempt.Once(context.Background(), timeout, func(ctx context.Context) error {
			found, err := c.locker.engine.Remove(ctx, d.place, d.tag, ids)
			s.found = append(s.found, found...)
			if err == nil && proof && len(found) == 0 {
				err = c.locker.engine.NoneOf(ctx, d.place, d.tag, ids)
			}
			return err
		})
	}
	if err == nil {
		return s
	}
	failure := engine.AsFailure(err)
	s.err, s.trouble = explain("release", err), failure.Trouble
	if !failure.Nothing {
		s.err = fmt.Errorf("%w: release: %w", doclock.ErrOutcomeUnknown, err)
	}
	s.final = failure.Refused() || engine.PanicIn(err) != nil
	s.away = s.away || s.trouble == engine.Overloaded
	return s
}

// apply applies an answer, and returns the calls to make without the mutex. If no server
// takes commands, all that is ready has failed, too.
func (c *cleanup) apply(d *debt, s sent) (calls []func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, now := []*debt{d}, time.Now()
	c.running--
	switch {
	case s.trouble == engine.Overloaded:
		c.rest = min(max(2*c.rest, firstRest), longOverload)
	case s.away:
		c.rest = firstRest
	default:
		c.rest = 0
	}
	if s.away {
		all, c.ready = append(c.ready, d), nil
	}
	for _, d := range all {
		calls = append(calls, c.note(d, s, now)...)
		switch {
		case len(d.ids) == 0:
			delete(c.debts, d.key)
		case s.away:
			c.ready = append(c.ready, d)
		default:
			c.schedule(d, s, now)
		}
	}
	if !s.away {
		c.wake()
	} else if c.asleep == nil {
		c.after(jittered(c.rest), &c.asleep, c.wake)
	}
	return calls
}

// note applies an answer to the ids that it is for. An id that was found, or seen and then
// not found, has one entry less. Without an answer it stays owed until its entry's life is over.
func (c *cleanup) note(d *debt, s sent, now time.Time) (calls []func()) {
	for id, l := range d.ids {
		n, asked := s.asked[id]
		err, found := s.err, slices.Contains(s.found, id)
		if !asked && !s.away || d.place.Pin == nil && len(s.found) > 0 && !found { // it may be in another document
			continue
		}
		if found {
			err = nil
		}
		if err == nil {
			if found || l.seen {
				l.entries--
			}
			l.seen = false
			if pin := d.place.Pin; pin != nil {
				calls = append(calls, func() {
					c.locker.queues.Removed(waitqueue.Key(pin), id)
					c.locker.idle.released()
				})
			}
		}
		l.err = err
		over := l.entries <= 0 || !now.Before(l.until) || c.closed && err == nil && n == len(l.answers)
		if err != nil && !l.reported && (over || s.final) {
			l.reported = true
			calls = append(calls, func() { c.locker.emitFailed(documentOf(d.place.Pin), d.tag, id, err) })
		}
		switch {
		case over, !now.Before(l.answerBy), !asked && s.final:
			n = len(l.answers)
		case err != nil && !s.final:
			continue
		}
		for _, answer := range l.answers[:n] {
			calls = append(calls, func() { answer(err) })
		}
		l.answers, l.proof = l.answers[n:], l.proof && n < len(l.answers)
		if over {
			delete(d.ids, id)
		}
	}
	return calls
}

// schedule lets the debt rest. After an answer the next command comes when as much time
// again has passed; at once, if somebody waits for it, or another document may have an
// entry. After a failure all ids rest together.
func (c *cleanup) schedule(d *debt, s sent, now time.Time) {
	pause, longest := max(now.Sub(d.since), firstRest), longestRest
	if s.final || s.trouble == engine.WriteConflict && !c.closed {
		longest = longRefusal
	}
	switch {
	case s.err != nil:
		d.rest, d.since = min(max(2*d.rest, firstRest), longest), now
		pause = jittered(d.rest)
	case d.place.Pin == nil && len(s.found) > 0:
		pause = 0
	default:
		d.rest = 0
	}
	for _, l := range d.ids {
		switch {
		case len(l.answers) == 0:
		case s.err == nil:
			pause = 0
		default:
			pause = min(pause, l.answerBy.Sub(now))
		}
		pause = min(pause, l.until.Sub(now))
	}
	c.pause(d, pause)
}

// close removes all leftovers once more. None of them rests any more, and Close waits for
// the answers, until it calls end: no longer than for that of any other command, or for two
// attempts.
func (c *cleanup) close() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bounds := c.locker.engine.Attempt(c.locker.engine.TTL)
	c.closed, c.closeBy = true, time.Now().Add(max(bounds.RetryLimit, 2*bounds.Timeout))
	for _, d := range c.debts {
		d.rest = 0
		for _, l := range d.ids {
			c.hold(l)
		}
		c.take(d)
	}
	c.wake()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closeBy = time.Time{}
	}
}

// hold has Close wait for the leftover's answer.
func (c *cleanup) hold(l *leftover) {
	c.locker.ops.Enter()
	l.answers = append(l.answers, func(error) { c.locker.ops.Leave() })
	l.answerBy = c.closeBy
}

// remains is the error of a Close that leaves entries of acquires without a lease. If Close
// has waited for the answers, those that have none yet came later.
func (c *cleanup) remains(waited bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	var errs []error
	for _, d := range c.debts {
		for id, l := range d.ids {
			if waited && l.err == nil || !time.Now().Before(l.until) {
				continue
			}
			names = append(names, fmt.Sprintf("%s until %s at the latest", nameOf(d.tag, id, documentOf(d.place.Pin)), l.until.UTC().Format(time.RFC3339)))
			errs = append(errs, l.err)
		}
	}
	err := describeLeft("may leave entries that nobody holds", names)
	return oneline.Join(append([]error{err}, errs[:min(len(errs), mostNamed)]...)...)
}
