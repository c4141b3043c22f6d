package storm

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/google/uuid"
)

// callKey finds a call in its context.
type callKey struct{}

// call is one call of the library's API.
type call struct {
	number   int
	name     string
	program  *program
	lease    *holding   // whose method it is, or nil
	acquires []*acquire // that it begins, or goes on with
	ticket   *acquire   // that it cancels, or nil
	begun    time.Time
	ended    time.Time
	order    int // of its begin
	returned int // and of its end, or 0 if it never returned
	err      error
	over     error // why its context has ended by then
	panicked bool
}

// call calls f with a context that has the call's value.
func (s *storm) call(ctx context.Context, p *program, name string, of *holding, f func(context.Context, *call) error) *call {
	c := &call{name: name, program: p, lease: of, begun: time.Now()}
	s.mu.Lock()
	c.order, c.number = s.tick(), len(s.calls)
	s.calls = append(s.calls, c)
	if of != nil {
		of.calls = append(of.calls, c)
	}
	s.mu.Unlock()
	ctx = context.WithValue(ctx, callKey{}, c)
	err, panicked := survived(func() error { return f(ctx, c) })
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ended, c.returned, c.err, c.panicked = time.Now(), s.tick(), err, panicked
	if deadline, limited := ctx.Deadline(); ctx.Err() != nil {
		c.over = context.Cause(ctx)
	} else if limited && !deadline.After(c.ended) { // its timer has not run yet
		c.over = context.DeadlineExceeded
	}
	return c
}

// survived is f's error, or that it has panicked by the storm's own doing.
func survived(f func() error) (err error, panicked bool) {
	defer func() {
		if reason := recover(); reason == thrown {
			panicked = true
		} else if reason != nil {
			panic(reason)
		}
	}()
	return f(), false
}

// gaveUp says that the caller's context has ended the call.
func (c *call) gaveUp() bool { return c.over != nil && c.err != nil }

// unknown says that the caller was told so.
func (c *call) unknown() bool { return errors.Is(c.err, doclock.ErrOutcomeUnknown) }

// acquire is an acquire as the events know it: a call, or one of its wants.
type acquire struct {
	by       *call
	calls    []*call // by, and those of its ticket
	document string  // "" if the filter finds any
	tag      string
	owner    string
	waits    bool // it may wait
	maxWait  *time.Duration
	skip     bool
	refused  bool // before it began: no event may come
	optional bool // the end of its ticket is left open
	ticket   bool
	cancel   *call // of its ticket
	waiting  bool  // Enqueue has returned a ticket that was not granted
	turn     int   // among the wants of a call
	holding  *holding
	events   []*heard
}

// holding is a lease that a caller has got.
type holding struct {
	lease   *doclock.Lease
	id      string
	of      *acquire // or nil of a downgrade's
	by      *call    // that has returned it
	got     int      // the order of that
	program *program
	ttl     time.Duration
	shared  bool
	calls   []*call
	lost    time.Time // when its time was up, or it was found lost, before its release
	alone   bool      // it was left alone
	verdict *call     // the last Release, which tells what became of the lease
}

// begin records an acquire of a call. The storm is not locked.
func (s *storm) begin(c *call, a *acquire) *acquire {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.by, a.calls = c, append(a.calls, c)
	a.turn = len(c.acquires)
	c.acquires = append(c.acquires, a)
	s.acquires = append(s.acquires, a)
	return a
}

// got records a lease that a call has returned, or that its function got.
func (s *storm) got(c *call, of *acquire, lease *doclock.Lease, ttl time.Duration, shared bool) *holding {
	h := &holding{lease: lease, id: text(lease.ID()), of: of, by: c, program: c.program, ttl: ttl, shared: shared}
	s.mu.Lock()
	h.got = s.tick()
	if of != nil {
		of.holding = h
	}
	s.holdings = append(s.holdings, h)
	s.mu.Unlock()
	go func() {
		<-lease.Done()
		if errors.Is(lease.Err(), doclock.ErrLost) {
			s.mu.Lock()
			defer s.mu.Unlock()
			h.lost = time.Now()
		}
	}()
	return h
}

// text is an id as the messages have it.
func text(id uuid.UUID) string { return hex.EncodeToString(id[:]) }

// heard is an event as an observer got it.
type heard struct {
	doclock.Event
	program *program
	call    *call // whose value its context has, or nil
}

// hear is the observer.
func (s *storm) hear(p *program, ctx context.Context, e doclock.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &heard{Event: e, program: p}
	h.call, _ = ctx.Value(callKey{}).(*call)
	p.events = append(p.events, h)
	if ctx.Err() != nil {
		s.found = append(s.found, "the context of an event has ended")
	}
}
