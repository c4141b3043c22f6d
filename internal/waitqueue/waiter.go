package waitqueue

import (
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// Request is what a waiter wants.
type Request struct {
	engine.Request
	Exact  bool          // its filter demands the document's identity alone: a handoff can serve it
	Begun  time.Duration // when it came, by the queues' clock
	Nested bool          // its caller holds an entry of the document, and those before it may wait for that
}

// Place is the place of a waiter's entry in the document queue. The zero Place
// is none.
type Place struct {
	Seq     int64
	Confirm time.Duration // the longest pause that keeps it
}

func (p Place) taken() bool { return p.Confirm > 0 }

// Known is the knowledge about a waiter that enters. The zero Known is none.
type Known struct {
	Place    Place
	Image    *engine.Image // of its last answer, or nil
	Sent     time.Duration // when the command was sent, or earlier
	Answered time.Duration // when it was answered
}

// Waiter waits in the wait queue of a document. One goroutine at a time waits.
type Waiter struct {
	Request
	order uint64 // of arrival
	nudge chan struct{}

	// Under the queues' lock:
	queue   *queue
	place   Place
	state   state
	removed bool           // from its queue
	asked   time.Duration  // when it was last answered, or came
	sent    time.Duration  // when it last began to ask, or was promised the lock
	news    uint64         // the view's then, or at the answer
	rest    time.Duration  // for how long after a refusal it doesn't ask without news
	handed  *engine.Answer // of a handoff; without an image it is unknown whether the waiter has an entry
	failure error          // that ends its wait
}

// state is what a waiter is doing.
type state uint8

const (
	asleep   state = iota
	asking         // it asks the server, or is about to
	promised       // a lease is being handed over to it
	answered       // the handoff's answer has come, or a failure
	taking         // it reads that
	left           // it has the lock, or gave up
)

// busy waiters may have the lock in a moment.
func (s state) busy() bool { return s != asleep && s != left }

func (w *Waiter) wake() {
	select {
	case w.nudge <- struct{}{}:
	default: // it has one coming
	}
}

// entry is its own one in the document, or nil.
func (w *Waiter) entry() *engine.Entry {
	if !w.place.taken() {
		return nil
	}
	return &engine.Entry{ID: w.ID, Seq: w.place.Seq}
}

// before is the order of the waiters of a tag: those with a place in the document
// come first, by place, and then the others, by arrival.
func (w *Waiter) before(other *Waiter) bool {
	switch taken := w.place.taken(); {
	case taken != other.place.taken():
		return taken
	case taken:
		return w.place.Seq < other.place.Seq
	default:
		return w.order < other.order
	}
}
