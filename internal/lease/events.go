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
// has none. Without an observer none is announced.

// Announcement is a caller who has got a lease, as the observer knows him. Several may
// have got one.
type Announcement struct {
	lease    *Lease
	ctx      context.Context // with the values of the acquire's, until the end
	owner    string
	granted  time.Duration // on the monotonic clock
	commands int64         // that were sent for the entry before
	over     bool          // the event of the end was emitted
}

// Announce emits the event that a caller has got the lease. Without it there are no
// later events. It is called once for a caller, with the acquire's context. Of the
// acquire's event it takes the owner, the wait, the commands and the conflict.
func (l *Lease) Announce(ctx context.Context, acquire doclock.Event) *Announcement {
	if l.observer == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &Announcement{lease: l, ctx: clean(ctx), owner: acquire.Owner, granted: l.engine.Clocks().Mono, commands: l.sent.Load()}
	l.announced = append(l.announced, a)
	e := a.event(doclock.EventGranted, nil)
	e.Held, e.Waited, e.Commands, e.Holders = 0, acquire.Waited, acquire.Commands, acquire.Holders
	l.observer.Emit(a.ctx, e)
	if errors.Is(l.cause, doclock.ErrLost) { // before the caller had it
		a.end(a.ctx, "", l.cause)
	}
	return a
}

// End emits the end of a caller who leaves the lease to others.
func (a *Announcement) End(ctx context.Context, err error) {
	if a == nil {
		return
	}
	a.lease.mu.Lock()
	defer a.lease.mu.Unlock()
	a.end(ctx, "", err)
}

// end emits the event of the end, once: a release, or a loss, as err says. The lease is
// locked.
func (a *Announcement) end(ctx context.Context, how doclock.EventHow, err error) {
	if a.over {
		return
	}
	e := a.event(doclock.EventReleased, err)
	if e.How = how; errors.Is(err, doclock.ErrLost) {
		e.Kind, e.How = doclock.EventLost, ""
	}
	a.lease.observer.Emit(clean(ctx), e)
	a.over, a.ctx = true, nil
}

// event describes the lease as the caller has it. The lease is locked.
func (a *Announcement) event(kind doclock.EventKind, err error) doclock.Event {
	e := a.lease.event(kind, err)
	e.Owner, e.Held, e.Commands = a.owner, a.lease.engine.Clocks().Mono-a.granted, int(a.lease.sent.Load()-a.commands)
	return e
}

func (l *Lease) event(kind doclock.EventKind, err error) doclock.Event {
	g := &l.grant
	return doclock.Event{Kind: kind, Time: l.engine.Clocks().Wall, DocumentID: g.Pin.ID(), Tag: g.Tag, LeaseID: g.ID, Fence: g.Fence, Err: err}
}

// clean is what an observer gets of a context: neither the driver's session nor
// the state of a command.
func clean(ctx context.Context) context.Context {
	return engine.WithSending(attempt.Detached(ctx), nil)
}

// succeed announces the lease that a conversion has made of another. It is valid since that
// was sent.
func (l *Lease) succeed(ctx context.Context, other *Lease) {
	if l.observer == nil {
		return
	}
	other.mu.Lock()
	announced := other.announced
	other.mu.Unlock()
	if len(announced) > 0 {
		l.Announce(ctx, doclock.Event{Owner: announced[0].owner, Waited: l.engine.Clocks().Mono - l.since().Mono})
	}
}

// emitLost emits a loss, unless the end was emitted. The lease is locked.
func (l *Lease) emitLost() {
	for _, a := range l.announced {
		a.end(a.ctx, "", l.cause)
	}
}

// emitVerdict emits the event of the end by a release's verdict, and before it that of
// an unknown outcome. The lease is locked.
func (l *Lease) emitVerdict(ctx context.Context, v *verdict, how doclock.EventHow, err error) {
	l.emitDoubt(ctx, v, err)
	for _, a := range l.announced {
		a.end(ctx, how, err)
	}
}

// emitEnds emits the end of the lease, by a handoff or a conversion.
func (l *Lease) emitEnds(ctx context.Context, how doclock.EventHow, err error) {
	if l.observer == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.announced {
		a.end(ctx, how, err)
	}
}

// emitUnknown emits that a command may have been executed, if the error that the caller gets
// says so: for one that ends the lease, and so has a verdict, once, when the caller gives up
// or by the verdict.
func (l *Lease) emitUnknown(ctx context.Context, v *verdict, err error) {
	if l.observer == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.emitDoubt(ctx, v, err)
}

// emitDoubt is emitUnknown for a lease that is locked. It emits nothing of one that goes back
// before a caller has got it.
func (l *Lease) emitDoubt(ctx context.Context, v *verdict, err error) {
	if len(l.announced) == 0 || l.unused || v != nil && v.unknown || !errors.Is(err, doclock.ErrOutcomeUnknown) {
		return
	}
	if v != nil {
		v.unknown = true
	}
	l.observer.Emit(clean(ctx), l.announced[0].event(doclock.EventOutcomeUnknown, err))
}

// emitTransaction emits the end of a transaction that took so long.
func (l *Lease) emitTransaction(ctx context.Context, took time.Duration, err error) {
	if l.observer == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.emitDoubt(ctx, nil, err)
	e := l.announced[0].event(doclock.EventTransaction, err)
	e.Waited = took
	switch {
	case err == nil:
		e.How = doclock.HowCommitted
	case errors.Is(err, doclock.ErrOutcomeUnknown):
		e.How = doclock.HowUndecided
	default:
		e.How = doclock.HowRolledBack
	}
	l.observer.Emit(clean(ctx), e)
}

// emitRenewal emits the outcome of a renewal of the entry. A
// command that was revoked before it was sent has no event.
func (l *Lease) emitRenewal(outcome engine.Outcome, err error) {
	if l.observer == nil || err == nil && outcome != engine.Renewed || errors.Is(err, engine.ErrRevoked) {
		return
	}
	kind := doclock.EventRenewed
	if err != nil {
		kind = doclock.EventRenewalFailed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.announced {
		if !a.over {
			l.observer.Emit(a.ctx, a.event(kind, err))
			return
		}
	}
}

// emitFailedRenewals emits that a renewal of several leases failed.
func emitFailedRenewals(leases []*Lease, err error) {
	if err == nil {
		return
	}
	for _, l := range leases {
		l.emitRenewal(engine.Lost, err)
	}
}

// sending is the state of a caller's command. It counts what is sent, and calls first
// before that, if it isn't nil.
func (l *Lease) sending(first func()) *engine.Sending {
	sending := &engine.Sending{Each: first}
	if l.observer != nil {
		sending.Each = func() {
			if first != nil {
				first()
			}
			l.sent.Add(1)
		}
	}
	return sending
}

// counted is ctx for a command in the background that several leases need. Each of
// them counts it.
func counted(ctx context.Context, leases []*Lease) context.Context {
	if leases[0].observer == nil {
		return ctx
	}
	return engine.WithSending(ctx, &engine.Sending{Each: func() {
		for _, l := range leases {
			l.sent.Add(1)
		}
	}})
}
