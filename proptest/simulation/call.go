package simulation

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/history"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/event"
)

type callKey struct{}

type call struct {
	number   int // in the order of their begin
	name     string
	program  *program
	client   int        // the runner
	lease    *holding   // whose method it is, or nil
	acquires []*acquire // that it begins, or goes on with
	ticket   *acquire   // that it cancels, or nil
	token    *token     // that it resumes or touches, or nil
	write    string     // what it writes into the document's log, or ""
	begun    time.Time
	ended    time.Time
	worked   time.Time // when the function of a Do, a DoAll or a Lead has ended
	work     error     // of that function
	err      error
	over     error         // why its context has ended by then
	overdue  time.Duration // by which it has outlived its context's deadline, if that came after its begin
	panicked bool
}

// call calls f with a context that has the call's value.
func (r runner) call(ctx context.Context, p *program, name string, of *holding, f func(context.Context, *call) error) *call {
	c := &call{name: name, program: p, client: r.number, lease: of, begun: time.Now()}
	r.mu.Lock()
	c.number = len(r.calls)
	r.calls = append(r.calls, c)
	if of != nil {
		of.calls = append(of.calls, c)
	}
	r.mu.Unlock()
	ctx = context.WithValue(ctx, callKey{}, c)
	p.pace.flies(1)
	err, panicked := survived(func() error { return f(ctx, c) })
	p.pace.flies(-1)
	r.mu.Lock()
	defer r.mu.Unlock()
	c.ended, c.err, c.panicked = time.Now(), err, panicked
	deadline, limited := ctx.Deadline()
	if ctx.Err() != nil {
		c.over = ctx.Err()
	} else if limited && !deadline.After(c.ended) { // its timer has not run yet
		c.over = context.DeadlineExceeded
	}
	if limited && deadline.After(c.begun) {
		c.overdue = max(0, c.ended.Sub(deadline))
	}
	if c.gaveUp() {
		r.fire(FaultCancelled)
	}
	r.told(c)
	return c
}

// survived is f's error, or that it has panicked by the simulation's own doing.
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

// function runs the function of a Do, a DoAll or a Lead, and notes its end.
func (c *call) function(f func() error) error {
	defer func() { c.worked = time.Now() }()
	c.work = f()
	return c.work
}

// gaveUp says that the caller's context has ended the call.
func (c *call) gaveUp() bool { return c.over != nil && c.err != nil }

func (c *call) unknown() bool { return errors.Is(c.err, doclock.ErrOutcomeUnknown) }

// does says that the call holds leases around a function.
func (c *call) does() bool { return c.name == "Do" || c.ofSeveral() }

// ofSeveral says that its error is of one of several leases, and doesn't say of which.
func (c *call) ofSeveral() bool { return c.name == "DoAll" || c.name == "Lead" }

func ends(c *call) bool {
	switch c.name {
	case "Release", "UpdateAndRelease", "Delete", "Convert":
		return true
	case "Detach": // refused, of a lease with HoldAtMost
		return !errors.Is(c.err, doclock.ErrInvalidArgument)
	default:
		return c.does()
	}
}

// acquire is an acquire as the events know it: a call, or one of its wants.
type acquire struct {
	by          *call
	group       *group
	document    string // "" if the filter finds any
	tag         string
	owner       string
	least, most time.Duration // HoldAtLeast and HoldAtMost
	skip        bool
	open        bool // its filter excludes documents that are shut
	ticket      bool
	id          string // of the ticket
	cancelled   bool   // its ticket was
	holding     *holding
	events      []*heard
}

type holding struct {
	lease   doclock.Lease
	id      string
	group   *group
	of      *acquire // or nil of a conversion's
	by      *call    // that has returned it
	since   time.Time
	program *program
	ttl     time.Duration
	shared  bool
	calls   []*call
	lost    time.Time // when its time was up, or it was found lost, before its release
	alone   bool      // it was left alone
}

// begin records an acquire of a call. The run is not locked.
func (s *run) begin(c *call, a *acquire) *acquire {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.by = c
	c.acquires = append(c.acquires, a)
	s.acquires = append(s.acquires, a)
	return a
}

// got records a lease that a call has returned, or that its function got.
func (s *run) got(c *call, of *acquire, lease doclock.Lease, ttl time.Duration) *holding {
	h := &holding{lease: lease, id: text(lease.ID()), of: of, by: c, since: time.Now(), program: c.program, ttl: ttl}
	s.mu.Lock()
	if of != nil {
		of.holding, h.group = h, of.group
		h.shared = !of.ticket && c.program.shares(of.tag)
	} else {
		h.group = c.lease.group
	}
	s.holdings = append(s.holdings, h)
	s.granted(h)
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

// ended says that a call before this one may have ended the lease. A conversion that has
// failed did not.
func (h *holding) ended(by *call) bool {
	return slices.ContainsFunc(h.calls, func(c *call) bool {
		return c != by && (by == h.by || c.number < by.number) && ends(c) && (c.name != "Convert" || c.err == nil)
	})
}

// text is an id as the messages have it.
func text(id uuid.UUID) string { return hex.EncodeToString(id[:]) }

// This file has a run recorded as a history, whose checker decides from the server's
// images alone whether each caller was told the truth about the lock.

// together has two monitors see what a client sends. The first one may panic: the second
// sees what was sent all the same.
func together(a, b *event.CommandMonitor) *event.CommandMonitor {
	return &event.CommandMonitor{
		Started:   func(ctx context.Context, e *event.CommandStartedEvent) { a.Started(ctx, e); b.Started(ctx, e) },
		Succeeded: func(ctx context.Context, e *event.CommandSucceededEvent) { b.Succeeded(ctx, e); a.Succeeded(ctx, e) },
		Failed:    func(ctx context.Context, e *event.CommandFailedEvent) { b.Failed(ctx, e); a.Failed(ctx, e) },
	}
}

// operation is a call as a history has it, without its outcome.
func (s *run) operation(c *call, kind string) history.Operation {
	return history.Operation{Process: c.program.number, Client: c.client, Number: c.program.recorder.Number(), Kind: kind, Write: c.write, Call: s.clock.At(c.begun)}
}

// fill has an operation be one of this lease.
func (h *holding) fill(o history.Operation) history.Operation {
	o.Document, _ = h.lease.DocumentID().StringValueOK()
	o.Tag, o.ID, o.Fence, o.TTL = h.lease.Tag(), h.id, h.lease.Fence(), h.ttl.Milliseconds()
	o.Shared = h.shared
	if h.of != nil {
		o.Least = h.of.least.Milliseconds()
	}
	return o
}

func (s *run) granted(h *holding) {
	kind := h.by.name
	switch {
	case h.of != nil && h.of.skip:
		kind = history.Claim
	case h.by.does(), kind == "AcquireAll":
		kind = history.Acquire
	}
	o := h.fill(s.operation(h.by, kind))
	o.Return, o.Outcome = s.clock.At(h.since), history.Granted
	s.history.Operation(o)
}

// writing records a call that is about to write into the document's log: it may be the last
// of its process.
func (s *run) writing(c *call, mark string) {
	c.write = mark
	s.history.Operation(c.lease.fill(s.operation(c, c.name)))
}

// told records what a caller was told by a call: of a lease that it had, or of acquires
// that got none. A lease that the caller has ended by another call before tells nothing
// more of the lock.
func (s *run) told(c *call) {
	switch {
	case c.panicked:
	case c.token != nil && c.err != nil:
		o := s.operation(c, c.name)
		o.Document, o.Key, o.Return, o.Outcome = c.token.document, c.token.key, s.clock.At(c.ended), outcome(c.err)
		s.history.Operation(o)
		return
	case c.lease != nil:
		s.toldOf(c.lease, c, c.name, c.begun)
	case c.does():
		for _, a := range c.acquires {
			if a.holding != nil && c.name != "Lead" {
				s.toldOf(a.holding, c, history.Release, c.worked)
			}
		}
	}
	for _, a := range c.acquires {
		if a.holding == nil {
			o := s.operation(c, c.name)
			o.Document, o.Tag, o.ID, o.Return, o.Outcome = a.document, a.tag, a.id, s.clock.At(c.ended), outcome(c.err)
			s.history.Operation(o)
		}
	}
}

func (s *run) toldOf(h *holding, c *call, kind string, begun time.Time) {
	if h.ended(c) || c.does() && c.worked.IsZero() {
		return
	}
	if kind == "Delete" {
		kind = history.UpdateAndRelease
	}
	o := h.fill(s.operation(c, kind))
	o.Call, o.Return, o.Outcome = s.clock.At(begun), s.clock.At(c.ended), outcome(c.err)
	if c.err != nil {
		o.Error = c.err.Error()
	}
	switch {
	case c.name == "DoAll" && c.err != nil && o.Outcome != history.Failed: // of one of them
		o.Outcome = history.Unknown
	case c.name == "Renew" && o.Outcome == history.Failed: // without a verdict
		o.Outcome = history.Unknown
	}
	s.history.Operation(o)
}

// outcome is what an error says of the lock.
func outcome(err error) string {
	switch {
	case err == nil:
		return history.Done
	case errors.Is(err, doclock.ErrOutcomeUnknown):
		return history.Unknown
	case errors.Is(err, doclock.ErrLost):
		return history.Lost
	case errors.Is(err, doclock.ErrReleased):
		return history.Released
	case errors.Is(err, doclock.ErrNotFound):
		return history.NotFound
	case errors.Is(err, doclock.ErrConflict):
		return history.Conflict
	default:
		return history.Failed
	}
}

// look records the lease's validity as its holder sees it.
func (r runner) look(h *holding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := h.fill(r.operation(h.by, history.Look))
	o.Write, o.Call = "", r.clock.Now()
	o.Remaining = int64(h.lease.Remaining())
	over := h.lease.Err()
	o.Return = r.clock.Now()
	switch {
	case errors.Is(over, doclock.ErrOutcomeUnknown): // a conversion is under way: if it is refused, the lease goes on
		return
	case o.Remaining > 0:
		o.Outcome = history.StillValid
	case over != nil:
		o.Outcome = history.Over
	default:
		return
	}
	r.history.Operation(o)
}

// taken records that a lease is about to be taken away.
func (s *run) taken(h *holding) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second/s.pace)
	defer cancel()
	s.operator.see(ctx)
	document, _ := h.lease.DocumentID().StringValueOK()
	s.history.Command(history.Command{
		Process: s.operator.number, Number: s.operator.recorder.Number(), Kind: history.CommandRelease,
		Document: document, Tag: h.lease.Tag(), ID: h.id, Sent: s.clock.Now(),
	})
}
