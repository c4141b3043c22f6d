package lease

import (
	"context"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// Holds is what the leases of one Locker have in common. Its constructor's
// arguments are of internal types: a user gets leases from a Locker.
type Holds struct {
	engine *engine.Engine
	ops    *attempt.Group
	line   Succession
	kept   renewals

	mu       sync.Mutex
	believed map[uuid.UUID]*share // the leases that are not over; nil where they aren't shared
}

// Succession is where a lease that is given back finds a waiter of its own process.
type Succession interface {
	// Next claims the waiter that the lock is handed over to: its Answer will
	// be called. It is nil where nobody waits, or another process's turn is due.
	Next(engine.Grant) Successor

	// Released is called when the lock was given back to nobody.
	Released(engine.Grant)
}

// Successor is a waiter that is promised the lock.
type Successor interface {
	// Request is what the handoff grants.
	Request() engine.Successor

	// Answer is called once. With an image the lock was released, and the
	// outcome is the successor's: Granted since Sent, or not, as the image shows.
	// Without one nobody knows: the id may stand in the document.
	Answer(engine.Answer)
}

// NewHolds is for Lockers.
func NewHolds(e *engine.Engine, ops *attempt.Group, line Succession) *Holds {
	return &Holds{engine: e, ops: ops, line: line, kept: renewals{engine: e, wake: make(chan struct{}, 1)}, believed: map[uuid.UUID]*share{}}
}

// New is how a Locker hands out what its engine was granted. sent is when the
// command was sent that granted it, or earlier.
func (ls *Holds) New(g engine.Grant, sent engine.Reading) *Handle {
	l := &Handle{
		leases:   ls,
		engine:   ls.engine,
		ops:      ls.ops,
		grant:    g,
		writing:  newGate(),
		renewing: newGate(),
		valid:    validity{from: sent, ttl: ls.engine.Lease(g.Tag)},
	}
	ls.mu.Lock()
	ls.believed[g.ID] = nil
	ls.mu.Unlock()
	l.over, l.stop = context.WithCancelCause(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = time.AfterFunc(l.nextLook(), l.look)
	return l
}

// AfterRelease has f called, which must not wait, once the lock has been given
// back: what was granted after an attempt of unknown outcome may be entered
// again by that one.
func (ls *Holds) AfterRelease(l *Handle, f func()) {
	entry := l.entry()
	entry.mu.Lock()
	defer entry.mu.Unlock()
	entry.after = f
}

// Believed reports whether a lease with this id is held here, and not over.
func (ls *Holds) Believed(id uuid.UUID) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	_, believed := ls.believed[id]
	return believed
}

func (ls *Holds) ended(id uuid.UUID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.believed, id)
}
