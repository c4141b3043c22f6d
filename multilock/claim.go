package multilock

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/waitqueue"
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

// claim takes the first document that is free, or waits until one is.
func (c *call) claim(ctx context.Context) (got granted, err error) {
	own := &claim{call: c, whole: c.filter}
	err = own.wait(ctx, func() (_ bool, err error) {
		got, err = own.take(ctx)
		return got.lease != nil, err
	})
	return got, err
}

// wait calls take until it has got something, and waits while nothing is free. If the claim
// has met a document that can't take the lock, it doesn't wait.
func (c *claim) wait(ctx context.Context, take func() (bool, error)) error {
	for {
		c.past = c.locker.unfit.recall(c.request.Tag)
		got, err := take()
		waits := !got && err == nil && c.passed == 0 && !c.tries()
		if got || waits || c.tries() {
			c.sweep(ctx, waits)
		}
		if got {
			return nil
		}
		if waits {
			c.observed.emitWaiting(nil)
			if err = c.locker.idle.wait(ctx, c); err == nil {
				continue
			}
		}
		return cmp.Or(err, c.last, c.none)
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
		c.call = c.narrow(c.whole)
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
			c.call = c.narrow(c.whole.At(front[0]))
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

// spoiled has claims pass over a document that the caller can't decode, or they would begin with
// it again and again.
func (c *call) spoiled(img *engine.Image, err error) {
	c.locker.unfit.add(c.request.Tag, c.locker.engine.Pin(img))
	c.observed.emitSkipped(err)
}

// ask sends the command until it is answered. With neither a lease nor an error it was
// refused, because the document can't take the lock or not in time, or found nothing.
func (c *claim) ask(ctx context.Context) (got granted, refused, err error) {
	sent, done, err := c.locker.slots.take(ctx, c.call, c.locker.ops.Closing())
	if err != nil {
		return got, nil, err
	}
	defer done()
	try := &try{claim: c, id: uuid.New()}
	answer, refused, err := try.run(ctx)
	sent()
	c.observed.lookAt(answer.Image)
	if err != nil || refused != nil || answer.Outcome != engine.Granted {
		return got, refused, err
	}
	got = granted{c.locker.leases.New(c.locker.engine.Grant(answer.Image, c.requestWith(try.id)), answer.Sent), answer.Image, answer.Sent.Mono}
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
		c.progress.note(c.none)
	}
	return found, err
}

// try is one command of a claim. Each attempt at it has a new id: an attempt of unknown
// outcome may have locked any document, and a repeat could lock another one.
type try struct {
	*claim
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
		img, err := e.Claimed(ctx, t.filter, t.requestWith(t.id))
		if err != nil {
			return got, err
		}
		if img != nil {
			got, err = e.Look(ctx, e.Grant(img, t.requestWith(t.id)), t.request.Document)
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
	ctx, cancel, err := t.patient(ctx)
	if err != nil {
		return got, err
	}
	defer cancel()
	got, err = e.Claim(ctx, t.filter, t.requestWith(t.id), t.past)
	if err != nil && !engine.AsFailure(err).Nothing {
		t.unknown = err
	}
	return got, err
}

// patient bounds a command that locks: the call must have the time to pass over a document.
func (c *call) patient(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if c.patience == 0 {
		return ctx, func() {}, nil
	}
	return c.locker.engine.Bound(ctx, c.patience)
}

// giveUp leaves the id of the attempt of unknown outcome to the clean-up, and takes a new
// one. It returns why the outcome is unknown.
func (t *try) giveUp() (unknown error) {
	t.locker.cleanup.add(t.filter, t.requestWith(t.id), time.Now(), leftover{entries: 1})
	unknown, t.unknown, t.id = t.unknown, nil, uuid.New()
	return unknown
}

// settleLast sends a command until it is answered, and explains why the last attempt has
// no answer. While commands of claims fail, one of the Locker's claims repeats its own.
func (c *call) settleLast(ctx context.Context, command string, send func(context.Context) error) error {
	if c.locker.ops.Closed() {
		return c.locker.closed
	}
	var failed error
	repeats := false
	defer func() {
		if repeats {
			c.locker.repeats.Unlock()
		}
	}()
	return c.settle(ctx, command, lastOf, func(ctx context.Context) error {
		if failed != nil && !repeats {
			if c.locker.repeats.Lock(ctx) != nil {
				return failed
			}
			repeats = true
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

// Bounds of what is passed over.
const (
	unfitFor  = time.Minute
	mostUnfit = 256 // by a claim, and remembered by a Locker
)

// unfit remembers for a minute the documents that can't take the lock, so that all claims
// of a Locker pass over them. It forgets none before: what it has no room for, each claim
// meets again.
type unfit struct {
	mu  sync.Mutex
	all []unfitOne // in the order in which they were refused
}

type unfitOne struct {
	tag, document string
	pin           engine.Pin
	until         time.Time
}

func (u *unfit) add(tag string, pin engine.Pin) {
	one := unfitOne{tag, waitqueue.Key(pin), pin, time.Now().Add(unfitFor)}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forget()
	known := slices.ContainsFunc(u.all, func(o unfitOne) bool { return o.tag == one.tag && o.document == one.document })
	if !known && len(u.all) < mostUnfit {
		u.all = append(u.all, one)
	}
}

// recall returns the documents that can't take a lock of this tag.
func (u *unfit) recall(tag string) (pins []engine.Pin) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forget()
	for _, o := range u.all {
		if o.tag == tag {
			pins = append(pins, o.pin)
		}
	}
	return pins
}

func (u *unfit) forget() {
	now := time.Now()
	u.all = slices.DeleteFunc(u.all, func(o unfitOne) bool { return now.After(o.until) })
}

// Bounds of the pauses of claims that nothing is free for.
const (
	shortestPoll = 4 * time.Millisecond
	pollShare    = 8                      // of the time for which nothing has been free, a pause is this part
	shortestStir = time.Millisecond       // from a poll to one that follows a release
	longestStir  = 250 * time.Millisecond // if such polls find nothing
	mostPolled   = 64
)

// idle are the claims of one Locker that nothing is free for. Of those with an equal
// filter, keys and tag the first one polls on behalf of all, and wakes as many as it has
// found documents.
type idle struct {
	longest time.Duration // pause
	mu      sync.Mutex
	queues  map[string]*idleQueue
}

type idleQueue struct {
	claims []*idler
	since  time.Time     // nothing has been free since then
	last   time.Time     // when the last poll began
	next   time.Time     // when the next one begins
	left   time.Time     // when this process last released an entry
	stir   time.Duration // from a poll to one that follows a release
	stirs  bool          // the next poll follows a release
}

type idler struct {
	nudge chan struct{}
	woken bool  // it asks
	err   error // or it fails
}

// wait waits until a document may be free for the claim.
func (i *idle) wait(ctx context.Context, c *claim) error {
	key := c.request.Tag + "\x00" + c.whole.Key()
	q, own := i.enter(key)
	stop := context.AfterFunc(ctx, func() { i.leave(key, q, own) }) // also during a poll: the next one polls
	defer func() {
		if stop() {
			i.leave(key, q, own)
		}
	}()
	for {
		pause, over, err := i.rest(q, own)
		if over || err != nil {
			return err
		}
		if pause > 0 {
			if err := own.sleep(ctx, pause); err != nil {
				return err
			}
			continue
		}
		found, err := c.look(ctx, i.polls(q))
		if err != nil {
			if engine.AsFailure(err).Outage() { // for as long as any command is repeated
				i.fail(q, own, err)
			}
			return err
		}
		i.polled(q, len(found))
	}
}

func (i *idle) enter(key string) (*idleQueue, *idler) {
	i.mu.Lock()
	defer i.mu.Unlock()
	q, now := i.queues[key], time.Now()
	if q == nil {
		q = &idleQueue{since: now, last: now, stir: shortestStir}
		i.schedule(q)
		i.queues[key] = q
	}
	own := &idler{nudge: make(chan struct{}, 1)}
	q.claims = append(q.claims, own)
	return q, own
}

func (i *idle) leave(key string, q *idleQueue, own *idler) {
	i.mu.Lock()
	defer i.mu.Unlock()
	q.claims = slices.DeleteFunc(q.claims, func(o *idler) bool { return o == own })
	if len(q.claims) == 0 {
		delete(i.queues, key)
		return
	}
	q.claims[0].wake()
}

// rest is how long a claim sleeps; not at all, if it polls now. Only the first one polls.
func (i *idle) rest(q *idleQueue, own *idler) (pause time.Duration, over bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case own.woken || own.err != nil:
		return 0, true, own.err
	case len(q.claims) == 0, q.claims[0] != own: // or its caller has left
		return time.Hour, false, nil
	default:
		return time.Until(q.next), false, nil
	}
}

func (o *idler) sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.nudge:
	case <-ctx.Done():
		return attempt.Ended(ctx)
	}
	return nil
}

func (o *idler) wake() {
	select {
	case o.nudge <- struct{}{}:
	default: // it has one coming
	}
}

// polls begins a poll, and is how many documents it looks for.
func (i *idle) polls(q *idleQueue) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	q.last = time.Now()
	return min(len(q.claims), mostPolled)
}

// polled has the first claims ask, one for each document that was found.
func (i *idle) polled(q *idleQueue, found int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if found > 0 {
		q.since = time.Now()
	}
	if found > 0 || !q.stirs {
		q.stir = shortestStir
	}
	for _, o := range q.claims[:min(found, len(q.claims))] {
		o.woken = true
		o.wake()
	}
	i.schedule(q)
	if !q.left.Before(q.last) { // which the poll may not have seen
		q.soon()
	}
}

// schedule chooses the next poll.
func (i *idle) schedule(q *idleQueue) {
	pause := min(max(time.Since(q.since)/pollShare, shortestPoll), i.longest)
	q.next, q.stirs = time.Now().Add(pause/2+rand.N(pause)), false
}

// soon brings the next poll forward. Each such poll that finds nothing makes the time from
// a poll to the next such one longer.
func (q *idleQueue) soon() {
	at := q.last.Add(q.stir)
	if at.Before(q.left) {
		at = q.left
	}
	if at.Before(q.next) && len(q.claims) > 0 {
		q.next, q.stirs, q.stir = at, true, min(2*q.stir, longestStir)
		q.claims[0].wake()
	}
}

// fail ends the waits of all claims of the queue: one of them could not reach a server for
// long.
func (i *idle) fail(q *idleQueue, failed *idler, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, o := range q.claims {
		if o != failed {
			o.err = err
			o.wake()
		}
	}
}

// released notes that this process has released an entry: some document may be free.
func (i *idle) released() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, q := range i.queues {
		q.left = time.Now()
		q.soon()
	}
}
