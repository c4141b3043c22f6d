package lease

import (
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/observe"
)

// This file emits the events of leases that callers have got. A lease without a caller
// has none. Without an observer no handle has an account.

// account is what the observer must know of one holder's part. The hold's mutex
// guards it.
type account struct {
	ctx      context.Context // with the values of the acquire's, until the end
	owner    string
	granted  time.Duration // on the monotonic clock
	commands int64         // that were sent for the entry before
	over     bool          // the event of its end was emitted
}

// Announce tells the observer that a caller has got the lease, and from then on
// what becomes of it. It is called once, with the acquire's context. Of the acquire's
// event it takes the owner, the wait, the commands and the conflict.
func (h *Handle) Announce(ctx context.Context, acquire observe.Event) {
	s := h.hold
	if s.observer == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx = clean(ctx)
	h.account = &account{ctx: ctx, owner: acquire.Owner, granted: s.engine.Clocks().Mono, commands: s.sent.Load()}
	e := h.event(observe.Granted, nil)
	e.Held, e.Waited, e.Commands, e.Conflict = 0, acquire.Waited, acquire.Commands, acquire.Conflict
	s.observer.Emit(ctx, e)
	if errors.Is(h.over, ErrLost) { // before the caller had it
		h.tellEnd(ctx, observe.Lost, h.over)
	}
}

// succeed announces the lease that a downgrade, sent at that time, has made of another.
func (h *Handle) succeed(ctx context.Context, other *Handle, sent engine.Reading) {
	if h.hold.observer == nil {
		return
	}
	other.hold.mu.Lock()
	of := other.account
	other.hold.mu.Unlock()
	if of != nil {
		h.Announce(ctx, observe.Event{Owner: of.owner, Waited: h.hold.engine.Clocks().Mono - sent.Mono})
	}
}

// clean is what an observer gets of a context: neither the driver's session nor
// the state of a command.
func clean(ctx context.Context) context.Context {
	return engine.WithSending(attempt.Detached(ctx), nil)
}

// event describes the lease. The hold is locked.
func (h *Handle) event(kind observe.Kind, err error) observe.Event {
	g, now := &h.hold.grant, h.hold.engine.Clocks()
	e := observe.Event{Kind: kind, Time: now.Wall, DocumentID: g.DocID, Tag: g.Tag, LeaseID: g.ID, Fence: g.Fence, Err: err}
	if of := h.account; of != nil {
		e.Owner, e.Held, e.Commands = of.owner, now.Mono-of.granted, int(h.hold.sent.Load()-of.commands)
	}
	return e
}

// tellEnd emits the event of the lease's end, once. The hold is locked.
func (h *Handle) tellEnd(ctx context.Context, kind observe.Kind, err error) {
	of := h.account
	if of == nil || of.over {
		return
	}
	h.hold.observer.Emit(clean(ctx), h.event(kind, err))
	of.over, of.ctx = true, nil
}

// tellLost tells a loss that no command of the holder's has found. The hold is
// locked.
func (h *Handle) tellLost() {
	if h.account != nil && !h.account.over {
		h.tellEnd(h.account.ctx, observe.Lost, h.over)
	}
}

// tellVerdict emits the event of the end by a release's verdict, and before it that of
// an unknown outcome. The hold is locked.
func (h *Handle) tellVerdict(ctx context.Context, v *verdict, kind observe.Kind, err error) {
	h.doubt(ctx, v, err)
	if errors.Is(err, ErrLost) {
		kind = observe.Lost
	}
	h.tellEnd(ctx, kind, err)
}

// tellAll tells the end of the hold, by a handoff or a downgrade, for all its holders.
func (s *Hold) tellAll(ctx context.Context, kind observe.Kind, err error) {
	if s.observer == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.holders {
		h.tellEnd(ctx, kind, err)
	}
}

// tellUnknown tells that a write, a renewal or a downgrade of the holder's may have been
// executed, if the error that the caller gets says so.
func (h *Handle) tellUnknown(ctx context.Context, err error) {
	s := h.hold
	if s.observer == nil || !errors.Is(err, ErrOutcomeUnknown) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.account != nil {
		s.observer.Emit(clean(ctx), h.event(observe.OutcomeUnknown, err))
	}
}

// tellDoubt is tellUnknown for a command that ends the lease, once for the command:
// when the caller gives up, or by the verdict.
func (h *Handle) tellDoubt(ctx context.Context, v *verdict, err error) {
	s := h.hold
	if s.observer == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.doubt(ctx, v, err)
}

// doubt is tellDoubt while the hold is locked. A lease that goes back before a caller
// has got it has no event.
func (h *Handle) doubt(ctx context.Context, v *verdict, err error) {
	if h.account != nil && !h.unused && !v.doubted && errors.Is(err, ErrOutcomeUnknown) {
		v.doubted = true
		h.hold.observer.Emit(clean(ctx), h.event(observe.OutcomeUnknown, err))
	}
}

// tellRenewal tells how a renewal of the entry was answered, once for all its
// holders. It tells nothing of a command that was revoked before it was sent.
func (s *Hold) tellRenewal(outcome engine.Outcome, err error) {
	if s.observer == nil || err == nil && outcome != engine.Renewed || errors.Is(err, engine.ErrRevoked) {
		return
	}
	kind := observe.Renewed
	if err != nil {
		kind = observe.RenewalFailed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.holders {
		if h.account != nil && !h.account.over {
			s.observer.Emit(h.account.ctx, h.event(kind, err))
			return
		}
	}
}

// tellRenewals tells that a renewal of several holds failed.
func tellRenewals(holds []*Hold, err error) {
	if err == nil {
		return
	}
	for _, s := range holds {
		s.tellRenewal(engine.Lost, err)
	}
}

// tellDiscarded tells that the release of a lease failed that no caller has got.
func (h *Handle) tellDiscarded(err error) {
	s := h.hold
	if s.observer == nil || err == nil || errors.Is(err, ErrLost) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observer.Emit(context.Background(), h.event(observe.CleanUpFailed, err))
}

// sending is the state of a holder's command. It counts what is sent.
func (s *Hold) sending() *engine.Sending {
	sending := &engine.Sending{}
	if s.observer != nil {
		sending.Each = s.count
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
