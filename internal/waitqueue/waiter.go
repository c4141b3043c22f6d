package waitqueue

import (
	"container/list"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// Request is what a waiter wants.
type Request struct {
	engine.Request
	Exact  bool          // its filter demands the document's identity alone: a handoff can serve it
	Shared bool          // it may join another holder's entry of this process
	Begun  time.Duration // when it came, by the queues' clock
	Nested bool          // its caller holds an entry of the document, and those before it may wait for that

	// Late handles a step that comes after the waiter has left. The queues only keep
	// it.
	Late func(*Waiter, Step)
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

// Kind is the kind of a waiter's step.
type Kind uint8

// The kinds of steps.
const (
	Ask    Kind = iota + 1 // the waiter asks the server
	Answer                 // a handoff to the waiter has ended
	Joined                 // a lease of an entry that was there is reserved for the waiter
)

// Step is what a waiter does next.
type Step struct {
	Kind   Kind
	Answer engine.Answer // of an Answer; without an image it is unknown whether the waiter has an entry
	Entry  uuid.UUID     // of a Joined: one of its leases is reserved
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
	element *list.Element // in its queue, or nil
	pile    *pile         // of the sleepers that it is in, and
	at      [2]int        // its positions in its piles
	asked   time.Duration // when it was last answered, or came
	sent    time.Duration // when it last began to ask, or was promised the lock
	news    uint64        // the view's then, or at the answer
	rest    time.Duration // for how long after a refusal it doesn't ask without news
	step    Step          // its next one, once answered
	failure error         // that ends its wait
}

// state is what a waiter is doing.
type state uint8

const (
	asleep   state = iota
	asking         // it asks the server, or is about to
	promised       // a lease is being handed over to it
	answered       // the handoff's answer has come, or a lease, or a failure
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
