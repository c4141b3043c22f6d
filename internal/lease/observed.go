package lease

import (
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
)

// This file emits the events of leases that callers have got. A lease without a caller
// has none. Without an observer no handle is announced.

// announcement is what the events of one holder's part take from its Announce. The
// hold's mutex guards it.
type announcement struct {
	ctx      context.Context // with the values of the acquire's, until the end
	owner    string
	granted  time.Duration // on the monotonic clock
	commands int64         // that were sent for the entry before
	over     bool          // the event of its end was emitted
}

// Announce emits the event that a caller has got the lease. Without it there are no
// later events. It is called once, with the acquire's context. Of the acquire's
// event it takes the owner, the wait, the commands and the holders.
func (h *Handle) Announce(ctx context.Context, acquire doclock.Event) {
	s := h.hold
	if s.observer == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx = clean(ctx)
	h.announced = &announcement{ctx: ctx, owner: acquire.Owner, granted: s.engine.Clocks().Mono, commands: s.sent.Load()}
	e := h.event(doclock.EventGranted, nil)
	e.Held, e.Waited, e.Commands, e.Holders = 0, acquire.Waited, acquire.Commands, acquire.Holders
	s.observer.Emit(ctx, e)
	if errors.Is(h.over, doclock.ErrLost) { // before the caller had it
		h.emitEnd(ctx, "", h.over)
	}
}

// succeed announces the lease that a downgrade, sent at that time, has made of another.
func (h *Handle) succeed(ctx context.Context, other *Handle, sent engine.Reading) {
	if h.hold.observer == nil {
		return
	}
	other.hold.mu.Lock()
	of := other.announced
	other.hold.mu.Unlock()
	if of != nil {
		h.Announce(ctx, doclock.Event{Owner: of.owner, Waited: h.hold.engine.Clocks().Mono - sent.Mono})
	}
}

// clean is what an observer gets of a context: neither the driver's session nor
// the state of a command.
func clean(ctx context.Context) context.Context {
	return engine.WithSending(attempt.Detached(ctx), nil)
}

// event describes the lease. The hold is locked.
func (h *Handle) event(kind doclock.EventKind, err error) doclock.Event {
	g, now := &h.hold.grant, h.hold.engine.Clocks()
	e := doclock.Event{Kind: kind, Time: now.Wall, DocumentID: g.Pin.ID(), Tag: g.Tag, LeaseID: g.ID, Fence: g.Fence, Err: err}
	if of := h.announced; of != nil {
		e.Owner, e.Held, e.Commands = of.owner, now.Mono-of.granted, int(h.hold.sent.Load()-of.commands)
	}
	return e
}

// emitEnd emits the event of the lease's end, once: a release, or a loss, as err says. The
// hold is locked.
func (h *Handle) emitEnd(ctx context.Context, how doclock.EventHow, err error) {
	of := h.announced
	if of == nil || of.over {
		return
	}
	e := h.event(doclock.EventReleased, err)
	if e.How = how; errors.Is(err, doclock.ErrLost) {
		e.Kind, e.How = doclock.EventLost, ""
	}
	h.hold.observer.Emit(clean(ctx), e)
	of.over, of.ctx = true, nil
}

// emitLost emits a loss that no command of the holder's has found. The hold is
// locked.
func (h *Handle) emitLost() {
	if h.announced != nil && !h.announced.over {
		h.emitEnd(h.announced.ctx, "", h.over)
	}
}

// emitVerdict emits the event of the end by a release's verdict, and before it that of
// an unknown outcome. The hold is locked.
func (h *Handle) emitVerdict(ctx context.Context, v *verdict, how doclock.EventHow, err error) {
	h.emitUnknownEndLocked(ctx, v, err)
	h.emitEnd(ctx, how, err)
}

// emitEnds emits the end of the hold, by a handoff or a downgrade, for all its holders.
func (s *Hold) emitEnds(ctx context.Context, how doclock.EventHow, err error) {
	if s.observer == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.holders {
		h.emitEnd(ctx, how, err)
	}
}

// emitUnknown emits that a write, a renewal or a downgrade of the holder's may have been
// executed, if the error that the caller gets says so.
func (h *Handle) emitUnknown(ctx context.Context, err error) {
	s := h.hold
	if s.observer == nil || !errors.Is(err, doclock.ErrOutcomeUnknown) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.announced != nil {
		s.observer.Emit(clean(ctx), h.event(doclock.EventOutcomeUnknown, err))
	}
}

// emitUnknownEnd is emitUnknown for a command that ends the lease, once for the command:
// when the caller gives up, or by the verdict.
func (h *Handle) emitUnknownEnd(ctx context.Context, v *verdict, err error) {
	s := h.hold
	if s.observer == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.emitUnknownEndLocked(ctx, v, err)
}

// emitUnknownEndLocked emits nothing of a lease that goes back before a caller has got
// it. The hold is locked.
func (h *Handle) emitUnknownEndLocked(ctx context.Context, v *verdict, err error) {
	if h.announced != nil && !h.unused && !v.unknown && errors.Is(err, doclock.ErrOutcomeUnknown) {
		v.unknown = true
		h.hold.observer.Emit(clean(ctx), h.event(doclock.EventOutcomeUnknown, err))
	}
}

// emitRenewal emits the outcome of a renewal of the entry, once for all its holders. A
// command that was revoked before it was sent has no event.
func (s *Hold) emitRenewal(outcome engine.Outcome, err error) {
	if s.observer == nil || err == nil && outcome != engine.Renewed || errors.Is(err, engine.ErrRevoked) {
		return
	}
	kind := doclock.EventRenewed
	if err != nil {
		kind = doclock.EventRenewalFailed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.holders {
		if h.announced != nil && !h.announced.over {
			s.observer.Emit(h.announced.ctx, h.event(kind, err))
			return
		}
	}
}

// emitFailedRenewals emits that a renewal of several holds failed.
func emitFailedRenewals(holds []*Hold, err error) {
	if err == nil {
		return
	}
	for _, s := range holds {
		s.emitRenewal(engine.Lost, err)
	}
}

// emitDiscarded emits that the release of a lease failed that no caller has got.
func (h *Handle) emitDiscarded(err error) {
	s := h.hold
	if s.observer == nil || err == nil || errors.Is(err, doclock.ErrLost) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observer.Emit(context.Background(), h.event(doclock.EventCleanUpFailed, err))
}

// sending is the state of a holder's command. It counts what is sent, and calls first
// before that, if it isn't nil.
func (s *Hold) sending(first func()) *engine.Sending {
	sending := &engine.Sending{Each: first}
	if s.observer != nil {
		sending.Each = func() {
			if first != nil {
				first()
			}
			s.count()
		}
	}
	return sending
}

func (s *Hold) count() { s.sent.Add(1) }

// counted is ctx for a command in the background that several holds need. Each of
// them counts it.
func counted(ctx context.Context, holds []*Hold) context.Context {
	if holds[0].observer == nil {
		return ctx
	}
	return engine.WithSending(ctx, &engine.Sending{Each: func() {
		for _, s := range holds {
			s.count()
		}
	}})
}
