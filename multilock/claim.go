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
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// claim is an acquire that takes any document which matches the filter and is free
// (rule 26). The server decides which.
type claim struct {
	*call
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
// that can't take the lock, it doesn't wait.
func (c *call) claim(ctx context.Context) (granted, error) {
	own := &claim{call: c, whole: c.filter}
	for {
		own.past = c.locker.unfit.recall(c.request.Tag)
		got, err := own.take(ctx)
		if got.lease == nil && err == nil && own.passed == 0 && !c.tries() {
			c.observed.emitWaiting(nil)
			if err = c.locker.idle.wait(ctx, own); err == nil {
				continue
			}
		}
		if got.lease == nil {
			return got, cmp.Or(err, own.last, own.none)
		}
		return got, nil
	}
}

// take asks until the server has granted a document, or has said that none is free: then
// there is neither a lease nor an error. If a document can't take the lock, the server
// doesn't say which. So the claim asks for the first ones by their _ids, and passes over
// those that are refused again.
func (c *claim) take(ctx context.Context) (got granted, err error) {
	routed := c.whole.Pin == nil && len(c.locker.engine.ShardKey) > 0 // old routers refuse a filter without the shard key
	var front []engine.Pin
	for narrow := routed; ; {
		c.call = c.of(c.whole)
		if c.lost > 0 || narrow && len(front) == 0 {
			front, err = c.look(ctx, 1<<min(c.lost+c.passed, 6))
			if err != nil || len(front) == 0 {
				c.lost = 0
				return got, err
			}
		}
		if c.lost > 0 {
			if !attempt.Sleep(ctx, c.pause()) {
				return got, attempt.Ended(ctx)
			}
			rand.Shuffle(len(front), func(i, j int) { front[i], front[j] = front[j], front[i] }) // or the same claims would meet again
		}
		if narrow {
			c.call = c.of(c.whole.At(front[0]))
			front = front[1:]
		}
		refused := error(nil)
		if got, refused, err = c.ask(ctx); got.lease != nil || err != nil {
			return got, err
		}
		switch {
		case refused == nil:
			c.lost++
			narrow = routed
			continue
		case c.filter.Pin != nil:
			err = c.pass(c.filter.Pin, refused)
		case engine.AsFailure(refused).Unfit != 0:
			narrow = true
		default: // it took too long: a transaction may have locked the first one
			front, err = c.look(ctx, 1)
			if err == nil && len(front) > 0 {
				err = c.pass(front[0], refused)
			}
			front = nil
		}
		if c.lost = 0; err != nil {
			return got, err
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

// ask sends the command until it is answered. With neither a lease nor an error it was
// refused, because the document can't take the lock or not in time, or found nothing.
func (c *claim) ask(ctx context.Context) (got granted, refused, err error) {
	sent, done, err := c.locker.slots.take(ctx, c.call, c.locker.ops.Closing())
	if err != nil {
		return got, nil, err
	}
	defer done()
	try := &try{call: c.call, past: c.past, id: uuid.New()}
	answer, refused, err := try.run(ctx)
	sent()
	c.observed.sees(answer.Image)
	if err != nil || refused != nil || answer.Outcome != engine.Granted {
		return got, refused, err
	}
	got = granted{c.locker.leases.New(c.locker.engine.Grant(answer.Image, c.by(try.id)), answer.Sent), answer.Image, answer.Sent.Mono}
	if ctx.Err() != nil {
		c.takeBack(got.lease)
		return granted{}, nil, attempt.Ended(ctx)
	}
	return got, nil, nil
}

// look asks which documents are free, without locking one.
func (c *claim) look(ctx context.Context, limit int) (found []engine.Pin, err error) {
	if c.passed == 0 {
		c.past = c.locker.unfit.recall(c.request.Tag)
	}
	sent, done, err := c.locker.slots.take(ctx, c.call, c.locker.ops.Closing())
	if err != nil {
		return nil, err
	}
	defer done()
	err = c.settleLast(ctx, "look-up", func(ctx context.Context) (err error) {
		found, err = c.locker.engine.Candidates(ctx, c.filter, c.request.Tag, c.past, limit)
		return err
	})
	sent()
	if err == nil && len(found) == 0 {
		c.none = c.notFound()
		c.progress.refused(c.none)
	}
	return found, err
}

// try is one command of a claim. Each attempt at it has a new id: an attempt of unknown
// outcome may have locked any document, and a repeat could lock another one.
type try struct {
	*call
	past    []engine.Pin
	id      uuid.UUID
	unknown error // of the attempt with this id
	late    error // the same, of an attempt that took too long
}

func (t *try) run(ctx context.Context) (got engine.Answer, refused, err error) {
	err = t.settleLast(ctx, "acquire", func(ctx context.Context) (err error) {
		got, err = t.send(ctx)
		return err
	})
	if t.unknown != nil {
		_ = t.giveUp()
	}
	switch {
	case t.late != nil && err == nil:
		return got, explain("acquire", t.late), nil
	case engine.AsFailure(err).Unfit != 0:
		return got, err, nil
	default:
		return got, nil, err
	}
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
func (c *call) settleLast(ctx context.Context, command string, send func(context.Context) error) error {
	if c.locker.closing() {
		return c.locker.closed
	}
	var failed error
	repeats := false
	defer func() {
		if repeats {
			<-c.locker.repeats
		}
	}()
	return c.settle(ctx, command, lastOf, func(ctx context.Context) error {
		if failed != nil && !repeats {
			select {
			case c.locker.repeats <- struct{}{}:
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
