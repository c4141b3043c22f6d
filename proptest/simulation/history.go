package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/history"
	"go.mongodb.org/mongo-driver/v2/event"
)

// This file has a run recorded as a history, whose checker decides from the server's
// images alone whether each caller was told the truth about the lock.

// together has two monitors see what a client sends.
func together(a, b *event.CommandMonitor) *event.CommandMonitor {
	return &event.CommandMonitor{
		Started:   func(ctx context.Context, e *event.CommandStartedEvent) { a.Started(ctx, e); b.Started(ctx, e) },
		Succeeded: func(ctx context.Context, e *event.CommandSucceededEvent) { a.Succeeded(ctx, e); b.Succeeded(ctx, e) },
		Failed:    func(ctx context.Context, e *event.CommandFailedEvent) { a.Failed(ctx, e); b.Failed(ctx, e) },
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

// granted records a grant.
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

// look records the lease's validity as its holder sees it. Sharers of an entry have one
// each.
func (r runner) look(h *holding) {
	if h.shared {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := h.fill(r.operation(h.by, history.Look))
	o.Write, o.Call = "", r.clock.Now()
	o.Remaining = int64(h.lease.Remaining())
	over := h.lease.Err()
	o.Return = r.clock.Now()
	switch {
	case errors.Is(over, doclock.ErrOutcomeUnknown): // a downgrade is under way: if it is refused, the lease goes on
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
