package simulation

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
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
	client   int        // the runner
	lease    *holding   // whose method it is, or nil
	acquires []*acquire // that it begins, or goes on with
	ticket   *acquire   // that it cancels, or nil
	token    *token     // that it resumes or touches, or nil
	write    string     // what it writes into the document's log, or ""
	begun    time.Time
	ended    time.Time
	order    int       // of its begin
	returned int       // and of its end, or 0 if it never returned
	worked   time.Time // when the function of a Do, a DoAll or a Lead has ended
	work     error     // of that function
	err      error
	over     error // why its context has ended by then
	panicked bool
}

// call calls f with a context that has the call's value.
func (r runner) call(ctx context.Context, p *program, name string, of *holding, f func(context.Context, *call) error) *call {
	c := &call{name: name, program: p, client: r.number, lease: of, begun: time.Now()}
	r.mu.Lock()
	c.order, c.number = r.tick(), len(r.calls)
	r.calls = append(r.calls, c)
	if of != nil {
		of.calls = append(of.calls, c)
	}
	r.mu.Unlock()
	ctx = context.WithValue(ctx, callKey{}, c)
	err, panicked := survived(func() error { return f(ctx, c) })
	r.mu.Lock()
	defer r.mu.Unlock()
	c.ended, c.returned, c.err, c.panicked = time.Now(), r.tick(), err, panicked
	if deadline, limited := ctx.Deadline(); ctx.Err() != nil {
		c.over = ctx.Err()
	} else if limited && !deadline.After(c.ended) { // its timer has not run yet
		c.over = context.DeadlineExceeded
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

// unknown says that the caller was told so.
func (c *call) unknown() bool { return errors.Is(c.err, doclock.ErrOutcomeUnknown) }

// does says that the call holds leases around a function.
func (c *call) does() bool { return c.name == "Do" || c.ofSeveral() }

// ofSeveral says that its error is of one of several leases, and doesn't say of which.
func (c *call) ofSeveral() bool { return c.name == "DoAll" || c.name == "Lead" }

// ends says that a call may end its lease.
func ends(c *call) bool {
	switch c.name {
	case "Release", "UpdateAndRelease", "Delete", "Downgrade":
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
	calls       []*call // by, and those of its ticket
	group       *group
	document    string // "" if the filter finds any
	tag         string
	owner       string
	least, most time.Duration // HoldAtLeast and HoldAtMost
	waits       bool          // it may wait
	maxWait     *time.Duration
	skip        bool
	inside      *holding // of the Do around it, if it asks for the same document
	refused     bool     // before it began: no event may come
	optional    bool     // the end of its ticket is left open
	ticket      bool
	id          string // of the ticket
	cancel      *call  // of its ticket
	waiting     bool   // Enqueue has returned a ticket that was not granted
	turn        int    // among the wants of a call
	holding     *holding
	events      []*heard
}

// holding is a lease that a caller has got.
type holding struct {
	lease   *doclock.Lease
	id      string
	group   *group
	of      *acquire // or nil of a downgrade's
	by      *call    // that has returned it
	since   time.Time
	got     int // the order of that
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
	a.by, a.calls = c, append(a.calls, c)
	a.turn = len(c.acquires)
	c.acquires = append(c.acquires, a)
	s.acquires = append(s.acquires, a)
	return a
}

// got records a lease that a call has returned, or that its function got.
func (s *run) got(c *call, of *acquire, lease *doclock.Lease, ttl time.Duration) *holding {
	h := &holding{lease: lease, id: text(lease.ID()), of: of, by: c, since: time.Now(), program: c.program, ttl: ttl}
	s.mu.Lock()
	h.got = s.tick()
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

// ended says that a call before this one may have ended the lease. A downgrade that has
// failed did not.
func (h *holding) ended(by *call) bool {
	return slices.ContainsFunc(h.calls, func(c *call) bool {
		return c != by && (by == h.by || c.order < by.order) && ends(c) && (c.name != "Downgrade" || c.err == nil)
	})
}

// text is an id as the messages have it.
func text(id uuid.UUID) string { return hex.EncodeToString(id[:]) }
