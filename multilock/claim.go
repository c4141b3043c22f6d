package multilock

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// claim is an acquire that takes any document which matches the filter and is free
// (rule 26). The server decides which.
type claim struct {
	*asked
	whole  engine.Filter // the caller's
	past   []engine.Pin  // the documents that it passes over
	passed int           // how many of them it has met itself
	last   error         // why the last of those can't take the lock
	lost   int           // races, one after the other
	none   error         // the server's word that none is free
}

// Bounds of the pauses after a lost race.
const (
	shortestRace = 2 * time.Millisecond
	longestRace  = 64 * time.Millisecond
)

// claim takes the first document that is free, or waits until one is. If it has met one
// that can't take the lock, it doesn't wait. Close ends it at once.
func (a *asked) claim(ctx context.Context, once bool) (*lease.Handle, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer (&function{end: func(err error) { attempt.End(cancel, err) }, atOnce: true}).begin(a.locker)()
	c := &claim{asked: a, whole: a.filter}
	for {
		c.past = a.locker.unfit.recall(a.request.Tag)
		held, err := c.take(ctx)
		if held == nil && err == nil && c.passed == 0 && !once {
			a.observed.emitWaiting(nil)
			if err = a.locker.idle.wait(ctx, c); err == nil {
				continue
			}
		}
		if held == nil {
			err = c.failed(ctx, cmp.Or(err, c.last, c.none), c.none)
		}
		return held, err
	}
}

// take asks until the server has granted a document, or has said that none is free: then
// there is neither a lease nor an error. If a document can't take the lock, the server
// doesn't say which. So the claim asks for the first ones by their _ids, and passes over
// those that are refused again.
func (c *claim) take(ctx context.Context) (*lease.Handle, error) {
	routed := c.whole.Pin == nil && len(c.locker.engine.ShardKey) > 0 // old routers refuse a filter without the shard key
	var front []engine.Pin
	var err error
	for narrow := routed; ; {
		c.asked = c.of(c.whole)
		if c.lost > 0 || narrow && len(front) == 0 {
			front, err = c.look(ctx, 1<<min(c.lost+c.passed, 6))
			if err != nil || len(front) == 0 {
				c.lost = 0
				return nil, err
			}
		}
		if c.lost > 0 {
			if !attempt.Sleep(ctx, c.pause()) {
				return nil, attempt.Ended(ctx)
			}
			rand.Shuffle(len(front), func(i, j int) { front[i], front[j] = front[j], front[i] }) // or the same claims would meet again
		}
		if narrow {
			c.asked = c.of(c.whole.At(front[0]))
			front = front[1:]
		}
		var got taken
		if got, err = c.ask(ctx); err != nil {
			return nil, err
		}
		switch {
		case got.Outcome == engine.Granted:
			held := c.locker.leases.New(c.locker.engine.Grant(got.Image, c.by(got.id)), got.Sent, false)
			return c.deliver(got.Image, held, nil)
		case got.refused == nil:
			c.lost++
			narrow = routed
			continue
		case c.filter.Pin != nil:
			err = c.pass(c.filter.Pin, got.refused)
		case engine.AsFailure(got.refused).Unfit != 0:
			narrow = true
		default: // it took too long: a transaction may have locked the first one
			front, err = c.look(ctx, 1)
			if err == nil && len(front) > 0 {
				err = c.pass(front[0], got.refused)
			}
			front = nil
		}
		if c.lost = 0; err != nil {
			return nil, err
		}
	}
}

// pause is that after a lost race: some servers tell the loser that nothing was found.
func (c *claim) pause() time.Duration {
	longest := min(shortestRace<<min(c.lost-1, 10), longestRace)
	return longest/2 + rand.N(longest/2)
}

// pass passes over a document.
func (c *claim) pass(pin engine.Pin, refused error) error {
	err := fmt.Errorf("doclock: document %s can't take the lock: %w", bsonvalue.Readable(pin.ID()), refused)
	if c.passed == mostUnfit {
		return err
	}
	c.past, c.passed, c.last = append(c.past, pin), c.passed+1, err
	if engine.AsFailure(refused).Unfit != 0 { // else it may be good
		c.locker.unfit.add(c.request.Tag, pin)
		c.observed.emitSkipped(err)
	}
	return nil
}

// taken is the result of an ask.
type taken struct {
	engine.Answer
	id      uuid.UUID
	refused error // the document can't take the lock, or not in time
	err     error
}

// ask sends the command until it is answered.
func (c *claim) ask(ctx context.Context) (taken, error) {
	try := &try{asked: c.asked, past: c.past, id: uuid.New()}
	got, _, err := run(ctx, c.asked, nil, c.locker.ops.Closing(), func() taken { return try.run(ctx) }, func(got taken, done func()) {
		if got.err != nil || got.Outcome != engine.Granted {
			done()
			return
		}
		c.locker.cleanup.discard(c.locker.engine.Pin(got.Image), try.by(got.id), unsure{}, true, func(error) { done() })
	})
	c.observed.sees(got.Image)
	return got, cmp.Or(err, got.err)
}

// look asks which documents are free, without locking one.
func (c *claim) look(ctx context.Context, limit int) (found []engine.Pin, err error) {
	type answer struct {
		found []engine.Pin
		err   error
	}
	if c.passed == 0 {
		c.past = c.locker.unfit.recall(c.request.Tag)
	}
	a, past := c.asked, c.past
	got, _, err := run(ctx, a, nil, c.locker.ops.Closing(), func() (got answer) {
		got.err = a.settleLast(ctx, "look-up", func(ctx context.Context) (err error) {
			got.found, err = a.locker.engine.Candidates(ctx, a.filter, a.request.Tag, past, limit)
			return err
		})
		return got
	}, func(_ answer, done func()) { done() })
	if err = cmp.Or(err, got.err); err == nil && len(got.found) == 0 {
		c.none = a.notFound()
	}
	return got.found, err
}

// try is one command of a claim. Each attempt at it has a new id: an attempt of unknown
// outcome may have locked any document, and a repeat could lock another one.
type try struct {
	*asked
	past    []engine.Pin
	id      uuid.UUID
	unknown error // of the attempt with this id
	late    error // the same, of an attempt that took too long
}

func (t *try) run(ctx context.Context) (got taken) {
	got.err = t.settleLast(ctx, "acquire", func(ctx context.Context) (err error) {
		got.Answer, err = t.send(ctx)
		return err
	})
	if t.unknown != nil {
		_ = t.giveUp()
	}
	got.id = t.id
	switch {
	case t.late != nil && got.err == nil:
		got.refused = explain("acquire", t.late)
	case engine.AsFailure(got.err).Unfit != 0:
		got.refused, got.err = got.err, nil
	}
	return got
}

// send sends the command, or what follows from an attempt of unknown outcome: it looks for
// the entry, and renews what it finds. The lease counts from that renewal. If there is
// none, and the attempt took too long, a transaction may have locked the document.
func (t *try) send(ctx context.Context) (got engine.Answer, err error) {
	e := t.locker.engine
	if t.unknown != nil {
		img, err := e.Claimed(ctx, t.filter, t.by(t.id))
		if err != nil {
			return got, err
		}
		if img != nil {
			got, err = e.Look(ctx, e.Grant(img, t.by(t.id)), t.request.Document)
			if err != nil {
				return got, err
			}
			if got.Outcome == engine.Renewed {
				got.Outcome, t.unknown = engine.Granted, nil
				return got, nil
			}
		}
		unknown := t.giveUp()
		if mongo.IsTimeout(unknown) {
			t.late = unknown
			return engine.Answer{}, nil
		}
	}
	got, err = e.Claim(ctx, t.filter, t.by(t.id), t.past)
	if err != nil && !engine.AsFailure(err).Nothing {
		t.unknown = err
	}
	return got, err
}

// giveUp leaves the id of the attempt of unknown outcome to the clean-up, and takes a new
// one. It returns why the outcome is unknown.
func (t *try) giveUp() (unknown error) {
	t.locker.cleanup.add(t.filter, t.by(t.id), time.Now(), leftover{entries: 1})
	unknown, t.unknown, t.id = t.unknown, nil, uuid.New()
	return unknown
}

// settleLast sends a command until it is answered, and explains why the last attempt has
// no answer. While commands of claims fail, one of the Locker's claims repeats its own.
func (a *asked) settleLast(ctx context.Context, command string, send func(context.Context) error) error {
	if a.locker.closing() {
		return a.locker.closed
	}
	var failed error
	repeats := false
	defer func() {
		if repeats {
			<-a.locker.repeats
		}
	}()
	return a.settle(ctx, command, lastOf, func(ctx context.Context) error {
		if failed != nil && !repeats {
			select {
			case a.locker.repeats <- struct{}{}:
				repeats = true
			case <-ctx.Done():
				return failed
			}
		}
		failed = send(ctx)
		return failed
	})
}

// lastOf is [attempt.Settle] where the refusal of the last attempt counts: what an earlier
// one did is known by then.
func lastOf(ctx context.Context, bounds engine.Attempts, send func(context.Context) error) (unsure, err error) {
	_, err = attempt.Settle(ctx, bounds, send)
	return nil, err
}
