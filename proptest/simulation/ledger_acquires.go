package simulation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
)

// This file checks how acquires go, by the doc comments of doclock.Event and of the
// kinds.

// acquire checks one. Those of a campaign are known by their grants alone.
func (l *ledger) acquire(a *acquire) {
	if a.by.name == "Lead" {
		return
	}
	var ends, waits, long []*heard
	for _, e := range a.events {
		switch e.Kind {
		case doclock.EventWaiting:
			l.check(AcquiresWait, len(ends) == 0, "%v comes after the end", l.show(e))
			waits = append(waits, e)
		case doclock.EventStillWaiting:
			l.check(AcquiresWait, len(ends) == 0 && len(long) == 0 && a.waits && !a.ticket && !a.skip && e.Waited > 0, "%v comes after the end, again, or of no wait", l.show(e))
			long = append(long, e)
		default:
			ends = append(ends, e)
		}
		l.since(a, e)
	}
	least, most := l.ends(a)
	if !l.check(AcquiresEnd, least <= len(ends) && len(ends) <= most, "%s has %d ends, and should have %d to %d: %v", l.name(a.by), len(ends), least, most, l.all(ends)) {
		return
	}
	l.waits(a, waits, ends)
	if len(ends) == 1 {
		l.end(a, ends[0])
		l.nested(a, ends[0])
		if l.exact() {
			l.sentFor(a, ends[0])
		}
	}
}

func (l *ledger) all(events []*heard) string {
	var texts []string
	for _, e := range events {
		texts = append(texts, l.show(e))
	}
	return strings.Join(texts, "; ")
}

// begun says whether the call was certainly begun, or certainly refused before.
func (l *ledger) begun(a *acquire) (yes, no bool) {
	c := a.by
	closed := c.program.closed
	atClose := !closed.IsZero() && errors.Is(c.err, doclock.ErrClosed)
	switch {
	case a.refused, errors.Is(c.err, doclock.ErrInvalidArgument), errors.Is(c.err, doclock.ErrInTransaction):
		return false, true
	case atClose && c.begun.After(closed) && l.exact():
		return false, true
	case atClose && !c.begun.Before(closed), c.over != nil && (c.ended.Equal(c.begun) || !l.exact()):
		return false, false
	default:
		return true, false
	}
}

// ends is how many ends the acquire has.
func (l *ledger) ends(a *acquire) (least, most int) {
	c := a.by
	yes, no := l.begun(a)
	switch {
	case no:
		return 0, 0
	case !yes:
		return 0, 1
	case len(c.acquires) > 1:
		return l.wantEnds(a)
	case a.ticket && c.err == nil && !c.panicked:
		return l.ticketEnds(a)
	default:
		return 1, 1
	}
}

// wantEnds is how many the want of several has: those before it were granted, and
// none begins after one that was not.
func (l *ledger) wantEnds(a *acquire) (least, most int) {
	if a.holding != nil {
		return 1, 1
	}
	for _, before := range a.by.acquires[:a.turn] {
		if before.ended() != doclock.EventGranted {
			return 0, 0
		}
	}
	if a.turn > 0 && errors.Is(a.by.err, doclock.ErrLost) {
		return 0, 1
	}
	return 1, 1
}

// ended is the kind of the acquire's end, or "".
func (a *acquire) ended() doclock.EventKind {
	for _, e := range a.events {
		if e.Kind != doclock.EventWaiting && e.Kind != doclock.EventStillWaiting {
			return e.Kind
		}
	}
	return ""
}

// waited reports whether the acquire was told to wait, and whether behind a holder.
func (a *acquire) waited() (waited, behind bool) {
	for _, e := range a.events {
		if e.Kind == doclock.EventWaiting {
			return true, len(e.Holders) > 0
		}
	}
	return false, false
}

// ticketEnds is how many a ticket has that was not refused.
func (l *ledger) ticketEnds(a *acquire) (least, most int) {
	switch {
	case a.holding != nil, a.cancel != nil:
		return 1, 1
	}
	for _, c := range a.calls {
		if c.panicked || errors.Is(c.err, doclock.ErrLost) || errors.Is(c.err, errSpoiled) {
			return 1, 1
		}
	}
	return 0, 1 // it was left alone; a command whose caller has left may find it lost
}

// end checks the kind of an end, and its error, by what the caller was told.
func (l *ledger) end(a *acquire, e *heard) {
	c := a.calls[len(a.calls)-1]
	if !a.ticket {
		c = a.by
	}
	if a.holding != nil {
		l.check(AcquiresEnd, e.Kind == doclock.EventGranted && e.Err == nil, "%v, and the caller has a lease", l.show(e))
		waited, behind := a.waited()
		l.check(AcquiresEnd, len(e.Holders) > 0 || !behind, "%v names no holder, and it has waited behind some", l.show(e))
		l.check(AcquiresEnd, len(e.Holders) == 0 || waited, "%v names holders, and it has not waited", l.show(e))
		return
	}
	if len(a.by.acquires) > 1 {
		told := a.by.err
		if e.Kind == doclock.EventGranted { // and given back
			l.check(AcquiresEnd, told != nil || a.by.panicked, "%v, and its leases were not returned", l.show(e))
			return
		}
		var want *multilock.WantError
		l.check(AcquiresEnd, a.by.panicked || told != nil && strings.Contains(told.Error(), "lock lost") ||
			errors.As(told, &want) && want.Unwrap().Error() == e.Err.Error(), "%v, and the caller was told %v", l.show(e), told)
		l.check(AcquiresEnd, e.Kind == l.kind(a, e.Err, c), "%v should be of another kind", l.show(e))
		return
	}
	if a.ticket && a.by.err == nil && !a.by.panicked {
		l.ticketEnd(a, e)
		return
	}
	l.check(AcquiresEnd, e.Err != nil, "%v without an error", l.show(e))
	if c.panicked {
		l.check(AcquiresEnd, e.Kind == doclock.EventGaveUp, "%v, and its decoding has panicked", l.show(e))
		return
	}
	l.check(AcquiresEnd, e.Kind == l.kind(a, c.err, c), "%v should be of another kind", l.show(e))
	l.check(AcquiresEnd, e.Err != nil && c.err != nil && e.Err.Error() == c.err.Error(), "%v, and the caller was told %v", l.show(e), c.err)
	var conflict *doclock.ConflictError
	if errors.As(c.err, &conflict) {
		l.check(AcquiresEnd, len(e.Holders) == len(conflict.Holders), "%v names %d holders, and the caller was told of %d", l.show(e), len(e.Holders), len(conflict.Holders))
	}
}

// ticketEnd checks the end of a ticket without a lease: it was cancelled, lost, or its
// document could not be decoded. One that Enqueue was granted at once may have a lease
// that nobody asked for.
func (l *ledger) ticketEnd(a *acquire, e *heard) {
	if e.Kind == doclock.EventGranted {
		l.timed(AcquiresEnd, e.Time.Equal(a.by.ended), "%v, and no caller has the lease", l.show(e))
		return
	}
	l.check(AcquiresEnd, e.Kind == doclock.EventGaveUp && errors.Is(e.Err, doclock.ErrNotAcquired), "%v of a ticket", l.show(e))
	lost := a.cancel == nil
	for _, c := range a.calls {
		lost = lost || errors.Is(c.err, doclock.ErrLost)
	}
	if !lost {
		l.check(AcquiresEnd, errors.Is(e.Err, doclock.ErrReleased) || errors.Is(e.Err, doclock.ErrLost) || errors.Is(e.Err, errSpoiled), "%v of a ticket that was cancelled", l.show(e))
	}
}

// nested checks an acquire inside of a Do that asks for what the Do holds: if that is in
// the way, it is refused at once, and the Do, whose function may return that error, was
// acquired all the same.
func (l *ledger) nested(a *acquire, e *heard) {
	h := a.inside
	if h == nil {
		return
	}
	l.check(NestedRefused, h.by.err == nil || !errors.Is(h.by.err, doclock.ErrNotAcquired), "%s: it was acquired", l.name(h.by))
	if !a.keptBackByOwn() {
		return
	}
	l.counts.Seen(SeenNested, 1)
	l.timed(NestedRefused, a.by.ended.Equal(a.by.begun) && e.Commands == 0, "%v: it waited for its own context", l.show(e))
}

// keptBackByOwn says that the acquire was refused, since its own context holds the lock.
func (a *acquire) keptBackByOwn() bool {
	var conflict *doclock.ConflictError
	return errors.As(a.by.err, &conflict) && !slices.ContainsFunc(conflict.Holders, func(of doclock.Holder) bool { return !of.InContext })
}

// kind is that of an end without a lease, by the error. Refused is a conflict or no
// document; what the context, MaxWait or Close has ended is given up. An acquire that
// waits for a lock is never refused by a conflict, and one that waits for any free
// document is not refused at all.
func (l *ledger) kind(a *acquire, err error, c *call) doclock.EventKind {
	ended := errors.Is(err, doclock.ErrClosed) || c.over != nil && (errors.Is(err, c.over) || errors.Is(err, context.Canceled))
	if err != nil && len(a.by.acquires) > 1 && strings.Contains(err.Error(), "lock lost") { // a lease before it was lost; some of these errors have ErrLost in their text only
		ended = true
	}
	if err != nil && a.maxWait != nil && strings.Contains(err.Error(), "waited for ") { // one attempt, if it is for no time at all
		ended = true
	}
	waits := a.waits && (a.maxWait == nil || *a.maxWait > 0)
	switch {
	case ended:
		return doclock.EventGaveUp
	case a.inside != nil && a.keptBackByOwn():
		return doclock.EventRefused
	case waits && a.maxWait != nil && a.skip:
		return doclock.EventGaveUp
	case errors.Is(err, doclock.ErrConflict) && !waits:
		return doclock.EventRefused
	case errors.Is(err, doclock.ErrNotFound) && !(waits && a.skip):
		return doclock.EventRefused
	default:
		return doclock.EventGaveUp
	}
}

// waits checks that the wait was told.
func (l *ledger) waits(a *acquire, waits, ends []*heard) {
	never := !a.ticket && (!a.waits || a.maxWait != nil && *a.maxWait == 0)
	l.check(AcquiresWait, len(waits) == 0 || len(waits) == 1 && !never, "%s waits %d times", l.name(a.by), len(waits))
	if len(ends) == 0 {
		return
	}
	end := ends[0]
	keptBack := l.exact() && !l.faulty && a.waits && end.Waited > 0
	if a.waiting || keptBack {
		l.check(AcquiresWait, len(waits) == 1, "%s was kept back, and told %d waits: %v", l.name(a.by), len(waits), l.show(end))
	}
	if keptBack && len(waits) == 1 && a.document != "" {
		l.check(AcquiresWait, waits[0].Waited == 0, "%v comes late", l.show(waits[0]))
	}
}

// since checks the time of an acquire's event.
func (l *ledger) since(a *acquire, e *heard) {
	begun := a.by.begun
	if a.turn > 0 {
		begun = time.Time{}
		for _, before := range a.by.acquires[a.turn-1].events {
			begun = before.Time
		}
	}
	l.timed(DurationsRight, e.Time.Add(-e.Waited).Equal(begun), "%v, and its turn began at %s", l.show(e), at(begun))
	last := a.calls[len(a.calls)-1]
	if a.cancel == nil && !a.optional && e.Kind != doclock.EventWaiting {
		l.timed(DurationsRight, !e.Time.After(last.ended), "%v comes after the return of %s", l.show(e), l.name(last))
	}
}
