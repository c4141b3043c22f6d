package claims

import (
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// Bounds of the pauses of a queue in which nothing is free.
const (
	shortestPause = 4 * time.Millisecond
	longestPause  = time.Second
	dryPerPause   = 8                      // the pause is this fraction of the time for which nothing has been free
	shortestRest  = time.Millisecond       // after a look-up, before a release leads to the next one
	longestRest   = 250 * time.Millisecond // if such look-ups found nothing
	longestDoubt  = 64                     // look-ups of lone claimants after an Ask that was refused, before the next
)

// queue is the claims with one filter, sort keys and tag.
type queue struct {
	key       string
	rand      func(n int) int
	claimants []*Claimant // in the order in which they came
	window    window
	used      time.Duration

	looking *Claimant
	busy    bool          // and its tries are under way: the last look-up found only documents that this process is trying
	nothing time.Duration // when the last Ask or Look was begun that showed that nothing else is free; negative is never

	drySince time.Duration // since when nothing has been found; negative is not
	pollAt   time.Duration // when to look again
	left     time.Duration // when this process last released an entry
	woken    bool          // the next look follows a release
	rest     time.Duration // between a look that finds nothing and the next that follows a release

	doubt int // how many look-ups of lone claimants come after the next Ask that is refused
	skip  int // how many of them are left
}

func newQueue(key string, rand func(n int) int) *queue {
	return &queue{key: key, rand: rand, window: newWindow(rand), nothing: -1, drySince: -1, left: -1, rest: shortestRest, doubt: 1}
}

// judge gives steps to the claimants that sleep, in their order.
func (q *queue) judge(now time.Duration) {
	for _, w := range q.claimants {
		if w.step.Kind != 0 || w.failure != nil {
			continue
		}
		alone := len(q.claimants) == 1
		if alone && q.window.looked < w.begun && q.window.met(now) {
			q.window.drop() // by now the others have taken the first of them
		}
		if c, ok := q.window.take(now); ok {
			w.candidate = c
			q.give(w, Step{Kind: Try, Candidate: c.pin}, now)
			continue
		}
		if q.window.cut {
			q.nothing, q.window.cut = -1, false
		}
		switch {
		case q.looking != nil, q.busy && q.trying():
			return
		case q.nothing < w.begun: // or it doesn't know yet
		case w.Once && q.trying(): // one of these may turn out to be free
			return
		case w.Once:
			q.give(w, Step{Kind: None}, now)
			continue
		case now < q.pollAt:
			continue
		}
		if alone && w.Asks && q.skip == 0 && len(q.window.unfit) == 0 {
			q.give(w, Step{Kind: Ask}, now)
			return
		}
		if alone {
			q.skip = max(0, q.skip-1)
		}
		q.looking = w
		q.give(w, Step{Kind: Look, Limit: q.window.limit(len(q.claimants), now)}, now)
		return
	}
}

// changed gives steps after a step has ended or the time of the next look has
// changed. The poller may sleep without end, because a look was under way.
func (q *queue) changed(now time.Duration) {
	q.judge(now)
	q.wakePoller()
}

func (q *queue) give(w *Claimant, step Step, now time.Duration) {
	q.used = now
	w.step, w.given = step, now
	w.wake()
}

// trying reports whether a candidate's try is under way.
func (q *queue) trying() bool { return len(q.window.tried) > 0 }

// settle ends an Ask or a Try.
func (q *queue) settle(w *Claimant, outcome Outcome, document string, now time.Duration) {
	step := w.step
	w.step, q.used = Step{}, now
	defer q.prune()
	if outcome == Failed {
		q.nothing = -1
	}
	if step.Kind == Try {
		w.Once = w.Once || outcome == Unfit
		q.window.settle(w.candidate, outcome, now)
		return
	}
	switch outcome {
	case Granted:
		q.doubt = 1
		q.window.granted(document, now)
	case Missing:
		q.dry(w.given, now)
	default:
		q.skip = q.doubt
		q.doubt = min(2*q.doubt, longestDoubt)
	}
}

// found ends a Look. If it has found fewer than its limit, nothing else is free than
// what is left of them.
func (q *queue) found(w *Claimant, found []engine.Pin, now time.Duration) {
	limit, sent := w.step.Limit, w.given
	q.looking, w.step, q.used = nil, Step{}, now
	all, busy := q.window.fill(found, sent, now)
	q.busy = busy
	if len(q.window.left) > 0 {
		q.drySince, q.rest, q.woken = -1, shortestRest, false
	}
	switch {
	case !all, len(found) >= limit:
		q.nothing = -1
	default:
		q.dry(sent, now)
	}
}

// prune forgets the grants that no look-up can have missed. A claimant
// that is alone may never look.
func (q *queue) prune() {
	if q.looking == nil {
		clear(q.window.taken)
	}
}

func (q *queue) remove(w *Claimant) {
	q.claimants = slices.DeleteFunc(q.claimants, func(other *Claimant) bool { return other == w })
}

// abandon ends the step of a claimant that leaves.
func (q *queue) abandon(w *Claimant, now time.Duration) {
	switch w.step.Kind {
	case Look:
		q.looking = nil
	case Try:
		delete(q.window.tried, w.candidate.key)
		q.nothing = -1
	}
	w.step = Step{}
	q.prune()
}

// dry notes that nothing else is free, as a command that was begun at that time
// has shown, and chooses when to look again.
func (q *queue) dry(begun, now time.Duration) {
	q.nothing = begun
	if q.drySince < 0 {
		q.drySince = now
	}
	if q.woken {
		q.rest = min(2*q.rest, longestRest)
	} else {
		q.rest = shortestRest
	}
	q.woken = false
	pause := min(max((now-q.drySince)/dryPerPause, shortestPause), longestPause)
	q.pollAt = now + pause/2 + time.Duration(q.rand(int(pause)))
	if q.left >= begun { // which the command may not have seen
		q.released(now)
	}
}

// released brings the next look forward, after a release of this process. Each look
// that finds nothing makes the rest before the next one longer.
func (q *queue) released(now time.Duration) {
	q.left = now
	if at := max(now, q.nothing+q.rest); at < q.pollAt {
		q.pollAt, q.woken = at, true
	}
}

// pause is how long a claimant sleeps. The first one that waits polls for all.
func (q *queue) pause(w *Claimant, now time.Duration) time.Duration {
	if q.poller() != w || q.looking != nil || (q.busy || w.Once) && q.trying() {
		return -1
	}
	return max(0, q.pollAt-now)
}

// poller is the first claimant that sleeps.
func (q *queue) poller() *Claimant {
	for _, w := range q.claimants {
		if w.step.Kind == 0 {
			return w
		}
	}
	return nil
}

// wakePoller has the poller choose its pause anew.
func (q *queue) wakePoller() {
	if w := q.poller(); w != nil {
		w.wake()
	}
}
