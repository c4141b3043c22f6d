package lease

import (
	"context"
	"errors"
	"log"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/doclock/doclock"
)

// mostEvents is the most events that wait for their delivery.
const mostEvents = 1024

// Observer delivers the events of one Locker. A nil one observes nothing, and costs
// nothing. It is safe for concurrent use.
//
// An event is emitted wherever something happens, also under a mutex: Emit only puts it
// into a queue. One goroutine, which exists while the queue has events, delivers them
// one at a time and in order. An observer that is too slow loses some of them: those of
// a loss, or of an unknown outcome, last.
type Observer struct {
	collection string
	functions  []any // see engine.Config

	mu      sync.Mutex // taken last
	queue   []queued
	dropped int  // events since the last delivered one
	running bool // the goroutine is

	// Of the goroutine alone:
	now  queued // what it delivers
	next int    // the function that gets it next
}

// queued is an event that waits for its delivery.
type queued struct {
	ctx context.Context
	doclock.Event
}

// NewObserver makes an Observer of the collection's events, or nil without functions.
func NewObserver(collection string, functions []any) *Observer {
	if len(functions) == 0 {
		return nil
	}
	return &Observer{collection: collection, functions: functions, next: len(functions)}
}

// Emit has the event delivered, and doesn't wait. The functions get ctx without
// its end.
func (o *Observer) Emit(ctx context.Context, e doclock.Event) {
	if o == nil {
		return
	}
	e.Collection = o.collection
	if e.Holders == nil {
		e.Holders = HoldersIn(e.Err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == mostEvents && !o.makeRoom(e) {
		return
	}
	o.queue = append(o.queue, queued{context.WithoutCancel(ctx), e})
	if !o.running {
		o.running = true
		go o.run()
	}
}

// makeRoom drops an event: the oldest of the lowest rank, or the new one if all
// others rank higher. It reports whether there is room for the new one.
func (o *Observer) makeRoom(e doclock.Event) bool {
	o.dropped++
	for least := range rank(e.Kind) + 1 {
		i := slices.IndexFunc(o.queue, func(q queued) bool { return rank(q.Kind) == least })
		if i >= 0 {
			o.queue = slices.Delete(o.queue, i, i+1)
			return true
		}
	}
	return false
}

// HoldersIn are the entries in the way that a conflict names, or none.
func HoldersIn(err error) []doclock.Holder {
	var c *doclock.ConflictError
	if !errors.As(err, &c) {
		return nil
	}
	return slices.Clone(c.Holders)
}

// rank orders the events by what is lost with them. Those of the lowest rank are
// dropped first.
func rank(kind doclock.EventKind) int {
	switch kind {
	case doclock.EventRenewed:
		return 0
	case doclock.EventWaiting, doclock.EventSkipped, doclock.EventNotGranted, doclock.EventRenewalFailed:
		return 1
	case doclock.EventLost, doclock.EventOutcomeUnknown:
		return 3
	default: // a lease began or ended: who counts leases must see both
		return 2
	}
}

// run delivers what is in the queue. A function that ends the goroutine
// ([runtime.Goexit]) ends only its own call: another goroutine goes on.
func (o *Observer) run() {
	empty := false
	defer func() {
		if !empty {
			go o.run()
		}
	}()
	for o.turn() {
		deliver(o.functions[o.next-1], o.now)
	}
	empty = true
}

// turn is the next function's, or the next event's. It is nobody's if the queue is
// empty.
func (o *Observer) turn() bool {
	if o.next < len(o.functions) {
		o.next++
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		o.queue, o.now, o.running = nil, queued{}, false
		return false
	}
	o.now, o.next = o.queue[0], 1
	o.now.Dropped, o.dropped = o.dropped, 0
	o.queue[0] = queued{}
	o.queue = o.queue[1:]
	return true
}

// deliver calls a function, and survives its panic as net/http survives a handler's.
func deliver(f any, q queued) {
	defer func() {
		if reason := recover(); reason != nil {
			log.Printf("doclock: panic in an observer of %q: %v\n%s", q.Kind, reason, debug.Stack())
		}
	}()
	f.(func(context.Context, doclock.Event))(q.ctx, q.Event)
}
