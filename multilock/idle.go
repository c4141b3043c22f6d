package multilock

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/attempt"
)

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
	claims  []*idler
	longest time.Duration // pause
	since   time.Time     // nothing has been free since then
	last    time.Time     // when the last poll began
	next    time.Time     // when the next one begins
	left    time.Time     // when this process last released an entry
	stir    time.Duration // from a poll to one that follows a release
	stirs   bool          // the next poll follows a release
}

type idler struct {
	nudge chan struct{}
	left  bool  // its caller has left
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
			if c.outage(err) {
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
		q = &idleQueue{longest: i.longest, since: now, last: now, stir: shortestStir}
		q.schedule()
		if i.queues == nil {
			i.queues = map[string]*idleQueue{}
		}
		i.queues[key] = q
	}
	own := &idler{nudge: make(chan struct{}, 1)}
	q.claims = append(q.claims, own)
	return q, own
}

func (i *idle) leave(key string, q *idleQueue, own *idler) {
	i.mu.Lock()
	defer i.mu.Unlock()
	own.left = true
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
	case own.left, q.claims[0] != own:
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
	q.schedule()
	if !q.left.Before(q.last) { // which the poll may not have seen
		q.soon()
	}
}

// schedule chooses the next poll.
func (q *idleQueue) schedule() {
	pause := min(max(time.Since(q.since)/pollShare, shortestPoll), q.longest)
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

// sleeping is how many claims wait.
func (i *idle) sleeping() (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, q := range i.queues {
		n += len(q.claims)
	}
	return n
}
