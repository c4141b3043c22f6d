package observe

import (
	"context"
	"log"
	"runtime/debug"
	"slices"
	"sync"
)

// most is the most events that wait for their delivery.
const most = 1024

// Observer delivers the events of one Locker. It is safe for concurrent use.
type Observer struct {
	collection string
	functions  []Func

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
	Event
}

// New makes an Observer of the collection's events, or nil without functions.
func New(collection string, functions []Func) *Observer {
	if len(functions) == 0 {
		return nil
	}
	return &Observer{collection: collection, functions: functions, next: len(functions)}
}

// Emit has the event delivered, and doesn't wait. The functions get ctx without
// its end.
func (o *Observer) Emit(ctx context.Context, e Event) {
	if o == nil {
		return
	}
	e.Collection = o.collection
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == most && !o.makeRoom(e) {
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
func (o *Observer) makeRoom(e Event) bool {
	o.dropped++
	for rank := range e.rank() + 1 {
		i := slices.IndexFunc(o.queue, func(q queued) bool { return q.rank() == rank })
		if i >= 0 {
			o.queue = slices.Delete(o.queue, i, i+1)
			return true
		}
	}
	return false
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
		call(o.functions[o.next-1], o.now)
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

// call calls a function, and survives its panic as net/http survives a handler's.
func call(f Func, q queued) {
	defer func() {
		if reason := recover(); reason != nil {
			log.Printf("doclock: panic in an observer of %q: %v\n%s", q.Kind, reason, debug.Stack())
		}
	}()
	f(q.ctx, q.Event)
}
