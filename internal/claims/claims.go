package claims

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
)

// Claims are the queues of one Locker's claims. They are safe for concurrent
// use.
type Claims struct {
	Config

	mu     sync.Mutex
	queues map[string]*queue
	swept  int // queues that the last sweep left

	releases int // that were noted
}

// Config is what the queues need.
type Config struct {
	Now     func() time.Duration // a clock that is never set back
	Rand    func(n int) int      // a random number below n; nil is math/rand's
	Closing <-chan struct{}      // is closed when all waits must end
	Closed  error                // the error of all claimants then
}

// New makes queues without claimants.
func New(c Config) *Claims {
	if c.Rand == nil {
		c.Rand = rand.IntN
	}
	return &Claims{Config: c, queues: map[string]*queue{}}
}

// Request is what a claimant wants.
type Request struct {
	Once bool // it doesn't wait: it gets None if nothing is free, or if its candidate was unfit
	Asks bool // it may send the acquire by the filter itself
}

// Kind is the kind of a claimant's step.
type Kind uint8

// The kinds of steps.
const (
	Ask  Kind = iota + 1 // it sends the acquire by the filter itself: Settle
	Look                 // it looks up Limit candidates for all: Found
	Try                  // it sends the acquire, narrowed to Candidate: Settle
	None                 // no document is free
)

// Step is what a claimant does next.
type Step struct {
	Kind      Kind
	Limit     int        // of a Look
	Candidate engine.Pin // of a Try
}

// Outcome is what an Ask or a Try has brought.
type Outcome uint8

// The outcomes.
const (
	Granted   Outcome = iota // the claimant has the lock
	Refused                  // the document is locked
	Missing                  // no document matches
	Unfit                    // the document can't take the lock
	LastUnfit                // nor can it, and the claimant gives up
	Failed                   // nobody knows
)

// Claimant is one claim. One goroutine uses it.
type Claimant struct {
	Request
	queue *queue
	nudge chan struct{}

	// Under the claims' lock:
	begun     time.Duration // when it came
	step      Step          // what it does now; none while it sleeps
	given     time.Duration // since when
	candidate candidate
	failure   error // that ends its claim
}

// Enter puts a claimant into the queue with this key, which is the same for equal
// filters, sort keys and tags.
func (c *Claims) Enter(key string, r Request) *Claimant {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[key]
	if q == nil {
		c.sweep()
		q = newQueue(key, c.Rand)
		c.queues[key] = q
	}
	w := &Claimant{Request: r, queue: q, nudge: make(chan struct{}, 1), begun: c.Now()}
	q.claimants = append(q.claimants, w)
	q.judge(c.Now())
	return w
}

// Await returns the claimant's next step. Otherwise its error is the end of ctx, the
// Locker's end, or a failure of all claimants ([Claims.Fail]).
func (c *Claims) Await(ctx context.Context, w *Claimant) (Step, error) {
	for {
		step, pause, err := c.next(w)
		if step.Kind != 0 || err != nil {
			return step, err
		}
		if err := c.sleep(ctx, w, pause); err != nil {
			return Step{}, err
		}
	}
}

// Asleep says that the claimant has no next step yet.
func (c *Claims) Asleep(w *Claimant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.step.Kind == 0 && w.failure == nil
}

// next is the claimant's next step, or how long it sleeps unless it is nudged; negative
// is without end.
func (c *Claims) next(w *Claimant) (Step, time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.failure != nil {
		return Step{}, 0, w.failure
	}
	now := c.Now()
	w.queue.judge(now)
	if w.step.Kind != 0 {
		w.queue.wakePoller() // which is another one now
		return w.step, 0, nil
	}
	return Step{}, w.queue.pause(w, now), nil
}

func (c *Claims) sleep(ctx context.Context, w *Claimant, pause time.Duration) error {
	var over <-chan time.Time
	if pause >= 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-w.nudge:
		return nil
	case <-over:
		return nil
	case <-ctx.Done():
		return attempt.Ended(ctx)
	case <-c.Closing:
		return c.Closed
	}
}

// Settle ends a step that was an Ask or a Try. document is the key of the
// document that was granted.
func (c *Claims) Settle(w *Claimant, outcome Outcome, document string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.queue.settle(w, outcome, document, c.Now())
	if outcome == Granted || outcome == LastUnfit { // it wants nothing more
		w.queue.remove(w)
	}
	w.queue.changed(c.Now())
}

// Found ends a step that was a Look, with what it found.
func (c *Claims) Found(w *Claimant, found []engine.Pin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.queue.found(w, found, c.Now())
	w.queue.changed(c.Now())
}

// Leave removes the claimant. Another claimant takes over its step.
func (c *Claims) Leave(w *Claimant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := w.queue
	q.remove(w)
	q.abandon(w, c.Now())
	q.changed(c.Now())
}

// Fail ends the claims of the same queue that sleep with the error of this one, which
// could not reach a server for long.
func (c *Claims) Fail(failed *Claimant, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range failed.queue.claimants {
		if w != failed && w.step.Kind == 0 {
			w.failure = err
			w.wake()
		}
	}
}

// Released notes that this process has released an entry of some document. The
// claimants look soon whether it is theirs.
func (c *Claims) Released() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releases++
	now := c.Now()
	for _, q := range c.queues {
		if len(q.claimants) > 0 {
			q.released(now)
			q.changed(now)
		}
	}
}

// Sleeping is how many claimants have no step.
func (c *Claims) Sleeping() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.queues {
		for _, w := range q.claimants {
			if w.step.Kind == 0 {
				n++
			}
		}
	}
	return n
}

// Releases is how many releases of this process were noted.
func (c *Claims) Releases() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.releases
}

// Queues is how many queues are kept.
func (c *Claims) Queues() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queues)
}

// sweep drops queues that nobody uses. It inspects each as often as their number
// doubles: a filter may be another one with each claim.
func (c *Claims) sweep() {
	if len(c.queues) < 2*c.swept+16 {
		return
	}
	for key, q := range c.queues {
		if len(q.claimants) == 0 && c.Now()-q.used > fresh {
			delete(c.queues, key)
		}
	}
	c.swept = len(c.queues)
}

func (w *Claimant) wake() {
	select {
	case w.nudge <- struct{}{}:
	default: // it has one coming
	}
}
