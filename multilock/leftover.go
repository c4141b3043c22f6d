package multilock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
)

// leftover is the id of an acquire that ended without a lease, and the entries
// that the document may have by it.
type leftover struct {
	id      uuid.UUID
	seen    bool      // an answer showed the entry
	entries int       // how many copies may still appear: one if seen, and one for each attempt of unknown outcome
	until   time.Time // when an entry that is not extended has expired

	answers  []func(error)
	answerBy time.Time // they wait no longer
	reported bool      // that it has failed

	last    bool          // Close has asked for a command that is not sent yet
	held    bool          // Close waits for its answer
	err     error         // of the last command
	due     time.Time     // of the next command
	rest    time.Duration // after that, if it is answered
	timeout time.Duration // of it
}

// count records whether a command has found the entry. If it was seen and is not
// there any more, another client has removed it.
func (l *leftover) count(found bool) {
	if found || l.seen {
		l.entries--
	}
	l.seen = false
}

// discard removes the entry of a request, if one was seen or may still be made.
// Without a pin the server has to look through the collection.
func (c *cleanup) discard(pin engine.Pin, r engine.Request, late unsure, seen bool, answer func(error)) {
	l := leftover{seen: seen, entries: late.n}
	last := late.last
	if seen {
		l.entries++
		last = time.Now()
	}
	if answer != nil {
		l.answers = append(l.answers, answer)
	}
	if l.entries > 0 {
		c.add(engine.Filter{Pin: pin}, r, last, l)
	} else if answer != nil {
		answer(nil)
	}
}

// release releases in the background a lease that no caller has got, of an acquire
// with this request, so that it keeps nobody out any longer: one that is lost does not. An
// observer gets ctx's values.
func (c *cleanup) release(ctx context.Context, r engine.Request, held *lease.Handle, answer func(error)) {
	held.Unused()
	c.locker.ops.Go(func() {
		err := c.released(r, held, held.Unlock(attempt.Detached(ctx)))
		if answer != nil {
			answer(err)
		}
	})
}

// released takes over what a release in the background has not removed, and returns why: a
// lost lease is gone.
func (c *cleanup) released(r engine.Request, held *lease.Handle, err error) error {
	if err == nil || errors.Is(err, doclock.ErrLost) {
		return nil
	}
	r.Tag, r.ID = held.Tag(), held.ID()
	if panicked := engine.PanicIn(err); panicked != nil {
		c.locker.emitFailed(held.DocumentID(), r.Tag, r.ID, panicked)
	}
	c.add(engine.Filter{Pin: held.Pin()}, r, time.Now(), leftover{seen: true, entries: 1})
	return err
}

// sleep stops the workers while no server can be reached, or it has too much to do:
// what is ready gets the group's answer, and is due at the end of the sleep.
func (c *cleanup) sleep(asked *group, s sent, now time.Time) (calls []func()) {
	waiting := append(c.ready, asked)
	c.ready = nil
	for _, p := range waiting {
		p.rest = 0
		for _, l := range p.left {
			if p != asked {
				calls = append(calls, c.settle(p, l, false, s, now)...)
			}
			l.due = now
		}
		if len(p.left) == 0 {
			delete(c.groups, p.key)
		} else {
			c.ready = append(c.ready, p)
		}
	}
	switch {
	case len(c.ready) == 0 || c.asleep != nil:
	default:
		longest := longestRest
		if s.trouble == engine.Overloaded {
			longest = longOverload
		}
		c.rest = min(max(2*c.rest, firstRest), longest)
		c.asleep = time.AfterFunc(s.pause(c.rest), func() { c.wake(1) })
		c.locker.engine.WhenAnswered(func() { c.wake(mostCleanUps) })
	}
	return calls
}

// wake ends the sleep. One worker looks whether a server can be reached; more begin
// at once if it is known.
func (c *cleanup) wake(workers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asleep == nil {
		return
	}
	c.asleep.Stop()
	c.asleep = nil
	c.start(min(workers, len(c.ready)))
}

// close removes all leftovers once more. None of them rests any more, and Close waits for
// the answers.
func (c *cleanup) close() {
	c.mu.Lock()
	c.closed = true
	for _, p := range c.groups {
		for _, l := range p.left {
			l.due, l.last = time.Now(), true
			c.hold(l)
		}
		c.take(p)
	}
	c.mu.Unlock()
	c.wake(mostCleanUps)
}

// hold has Close wait for the leftover's answer, no longer than for that of any other
// command, or for two attempts.
func (c *cleanup) hold(l *leftover) {
	if !l.held {
		l.held = true
		c.locker.ops.Enter()
	}
	bounds := c.locker.engine.Attempt(c.locker.engine.TTL)
	l.answerBy = time.Now().Add(max(bounds.RetryLimit, 2*bounds.Timeout))
}

// remains is the error of a Close that leaves entries of acquires without a lease. If Close
// has waited for the answers, those that have none yet came later.
func (c *cleanup) remains(waited bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	var errs []error
	for _, p := range c.groups {
		for _, l := range p.left {
			if waited && l.err == nil || !time.Now().Before(l.until) {
				continue
			}
			names = append(names, fmt.Sprintf("%s until %s at the latest", nameOf(p.tag, l.id, documentOf(p.place.Pin)), l.until.UTC().Format(time.RFC3339)))
			errs = append(errs, l.err)
		}
	}
	err := leaves("may leave entries that nobody holds", names)
	return oneline.Join(append([]error{err}, errs[:min(len(errs), mostNamed)]...)...)
}
