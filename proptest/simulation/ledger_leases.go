package simulation

import (
	"errors"
	"slices"

	"github.com/doclock/doclock"
)

// This file checks how leases begin and end.

// lease checks the grant and the end of one.
func (l *ledger) lease(of *life) {
	g, e, h := of.granted, of.end, of.holding
	l.check(LeasesEnd, g.Err == nil && g.Held == 0, "%v", l.show(g))
	if !l.check(LeasesEnd, e != nil, "%v has no end", l.show(g)) {
		return
	}
	l.timed(DurationsRight, e.Time.Add(-e.Held).Equal(g.Time), "%v, and it was granted at %s", l.show(e), at(g.Time))
	l.check(LeasesEnd, e.Fence == g.Fence && e.Tag == g.Tag && e.Owner == g.Owner && e.DocumentID.Equal(g.DocumentID), "%v is of another lease than %v", l.show(e), l.show(g))
	if g.call.name == "Lead" {
		l.counts.Seen(SeenLed, 1)
	}
	if h == nil {
		l.nobodys(of)
		return
	}
	l.check(LeasesEnd, g.Tag == h.lease.Tag() && g.Fence == h.lease.Fence() && g.DocumentID.Equal(h.lease.DocumentID()), "%v, and the lease is %q, %d", l.show(g), h.lease.Tag(), h.lease.Fence())
	if of.acquire != nil && of.acquire.owner != "" {
		l.check(LeasesEnd, g.Owner == of.acquire.owner, "%v should have the owner %q", l.show(g), of.acquire.owner)
	}
	if l.exact() {
		l.inTime(of)
	}
	switch e.Kind {
	case doclock.EventLost:
		l.check(EventsBelong, e.call == g.call || ends(e.call), "%v has the values of another call than %v", l.show(e), l.show(g))
		l.check(LeasesEnd, errors.Is(e.Err, doclock.ErrLost) && (h.lost.Equal(e.Time) || l.toldLost(of) || !l.exact() && !h.lost.IsZero()), "%v, and its caller was not told so: %v", l.show(e), l.story(h))
	case doclock.EventHandedOver:
		l.check(LeasesEnd, e.Err == nil && e.call.name != "Downgrade" && l.successor(of) != "", "%v, and no waiter got it", l.show(e))
	default:
		l.released(of)
	}
}

// nobodys checks the lease that no caller has: its acquire of several has failed, or
// nobody has asked for what Enqueue was granted.
func (l *ledger) nobodys(of *life) {
	a := of.acquire
	failed := a != nil && (len(a.by.acquires) > 1 && (a.by.err != nil || a.by.panicked) || a.ticket)
	l.check(LeasesEnd, failed, "%v, and no caller has the lease", l.show(of.granted))
	if failed && !a.ticket {
		l.check(LeasesEnd, of.end.Kind != doclock.EventDetached, "%v of a lease that was given back", l.show(of.end))
	}
}

// inTime checks that a loss by time is told when it happens, and no later than a TTL
// after the grant where nothing has renewed the lease.
func (l *ledger) inTime(of *life) {
	h, e := of.holding, of.end
	if !h.lost.IsZero() {
		l.check(LossesInTime, !e.Time.After(h.lost) && (e.Kind == doclock.EventLost || e.Time.Before(h.lost) || e.Err != nil), "%v, and it was lost at %s", l.show(e), at(h.lost))
	}
	if h.alone {
		l.check(LossesInTime, e.Kind == doclock.EventLost, "%v, and it was left alone", l.show(e))
	}
	if of.acquire != nil && of.acquire.most > 0 {
		l.counts.Seen(SeenLimited, 1)
		begun := e.call.begun // of the call that ends it
		if e.call == of.granted.call {
			begun = e.call.worked
		}
		inTime := !begun.Before(of.granted.Time) && begun.Sub(of.granted.Time) <= of.acquire.most
		l.check(LimitsKept, inTime || e.Held <= of.acquire.most, "%v, and should have been held for %v at most", l.show(e), of.acquire.most)
	}
	renewed := false
	for _, c := range l.commands {
		renewed = renewed || c.kind == "renew" && c.names(of.id) || c.name == "update" && c.names(of.id)
	}
	if !renewed && e.Kind == doclock.EventLost && h.lost.Equal(e.Time) {
		l.check(LossesInTime, e.Held <= h.ttl, "%v, and its TTL is %v", l.show(e), h.ttl)
	}
}

// toldLost says that a caller of the entry was told ErrLost.
func (l *ledger) toldLost(of *life) bool {
	for _, c := range l.calls {
		if c.lease != nil && c.lease.id == of.id && errors.Is(c.err, doclock.ErrLost) {
			return true
		}
	}
	return false
}

func (l *ledger) story(h *holding) string { return l.stories(h.calls) }

func (l *ledger) stories(calls []*call) (text string) {
	for _, c := range calls {
		text += l.name(c) + "; "
	}
	return text
}

// released checks an end by the holder: the kind, and the error, by what its caller was
// told. A caller who has given up, or to whom another error was told, learns the
// outcome from the next Release. One that sends a command says that the one before has
// failed.
func (l *ledger) released(of *life) {
	e, h := of.end, of.holding
	c := e.call
	want := doclock.EventReleased
	if c.name == "Detach" {
		want = doclock.EventDetached
	}
	l.check(LeasesEnd, e.Kind == want, "%v, and should be %q", l.show(e), want)
	l.check(LeasesEnd, !errors.Is(e.Err, doclock.ErrLost), "%v", l.show(e))
	l.timed(LeasesEnd, e.Err != nil || c.name == "Downgrade" || !l.handedOver(of), "%v, and its command has handed the lock over", l.show(e))
	failed, err := false, c.err
	next := l.next(h, c)
	own := next != nil && !l.repeats(h, next) // so the command before was not executed
	hidden := c.lease == nil && (c.ofSeveral() || c.panicked) || c.name == "UpdateAndRelease" || c.name == "Delete"
	switch {
	case c.lease != nil && c.err == nil:
	case c.name == "Do" && !c.panicked:
		failed = c.err != nil && (c.work == nil || c.err.Error() != c.work.Error())
	case hidden, c.gaveUp():
		if next == nil || c.name == "Detach" {
			return // nobody has asked
		}
		if h.shared && e.Err != nil && next.err == nil && !own {
			return // the next release has left the entry to others
		}
		failed, err = own || next.err != nil, next.err
	default:
		failed = true
	}
	l.check(LeasesEnd, failed == (e.Err != nil), "%v, and its caller was told %v: %v", l.show(e), err, l.story(h))
	if failed && e.Err != nil && !hidden && c.lease != nil && !c.gaveUp() {
		l.check(LeasesEnd, e.Err.Error() == err.Error(), "%v, and its caller was told %v", l.show(e), err)
	}
}

// next is the first release after another call, which may be that of a Do.
func (l *ledger) next(h *holding, after *call) *call {
	calls := h.ending()
	for _, c := range calls[slices.Index(calls, after)+1:] {
		if c.name == "Release" || c == h.by && !l.repeats(h, c) {
			return c
		}
	}
	return nil
}

// successor is the id of a lease that the same command has granted, or "".
func (l *ledger) successor(of *life) string {
	for _, c := range l.commands {
		if c.call != of.end.call || !c.names(of.id) || c.failed || c.program != of.program || l.exact() && c.answered.After(of.end.Time) {
			continue
		}
		for _, id := range c.ids {
			if id != of.id {
				return id
			}
		}
	}
	return ""
}

// handedOver says that a waiter has got the lock by the command that has ended the
// lease, and has sent none of its own.
func (l *ledger) handedOver(of *life) bool {
	id := l.successor(of)
	for _, next := range l.lives[key(of.program, id)] {
		if next.acquire == nil || !next.granted.Time.Equal(of.end.Time) {
			continue
		}
		asked := false
		for _, c := range l.commands {
			asked = asked || c.names(id) && c.call != nil && c.call != of.end.call && !c.sent.After(next.granted.Time) && !c.sent.Before(of.end.Time)
		}
		return !asked
	}
	return false
}
