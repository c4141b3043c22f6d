package storm

import "github.com/doclock/doclock"

// This file checks the outcomes that are unknown.

// doubt is a command whose outcome was told as unknown: of a call, and of one of its
// leases.
type doubt struct {
	call *call
	id   string
}

// outcomes compares the events with what callers were told. A call is a command of its
// own. One exception is a release that has sent nothing: it gives the answer of the
// ending command before it.
func (l *ledger) outcomes() {
	told := map[doubt]int{}
	for _, p := range l.programs {
		for _, e := range p.events {
			if e.Kind == doclock.EventOutcomeUnknown && e.call != nil {
				told[doubt{e.call, text(e.LeaseID)}]++
				l.check(OutcomesKnown, e.Err != nil && !e.Time.Before(e.call.begun), "%v", l.show(e))
			}
		}
	}
	for _, h := range l.holdings {
		l.doubts(h, told)
	}
	for _, a := range l.acquires {
		if a.cancel != nil {
			l.cancelled(a, told)
		}
	}
	for d, n := range told {
		l.check(OutcomesKnown, false, "%s was told as unknown %d times, and no caller was", l.name(d.call), n)
	}
}

// doubts checks the calls of one lease, and takes what it has checked out of told.
func (l *ledger) doubts(h *holding, told map[doubt]int) {
	var group []*call // for one command
	check := func() {
		want, n := 0, 0
		for _, c := range group {
			if c.unknown() && c.name != "DoAll" { // whose answer is of several leases
				want = 1
			}
			n += told[doubt{c, h.id}]
			delete(told, doubt{c, h.id})
		}
		l.check(OutcomesKnown, n == want, "%d unknown outcomes were told, and should be %d: %v", n, want, l.stories(group))
	}
	for _, c := range h.ending() {
		if len(group) > 0 && !(ends(group[0]) && l.repeats(h, c)) {
			check()
			group = nil
		}
		group = append(group, c)
	}
	check()
}

// ending are the calls of a lease, with that of the Do whose release comes after its
// function.
func (h *holding) ending() (calls []*call) {
	do := h.by
	if do.name != "Do" && do.name != "DoAll" {
		return h.calls
	}
	for _, c := range h.calls {
		if do != nil && c.order > do.returned {
			calls, do = append(calls, do), nil
		}
		calls = append(calls, c)
	}
	return calls
}

// repeats says that a release has sent nothing: it gives the answer of the command
// before it.
func (l *ledger) repeats(h *holding, c *call) bool {
	if c.name != "Release" && c != h.by {
		return false
	}
	for _, sent := range l.commands {
		if sent.call == c && (c != h.by || sent.order > h.got && sent.names(h.id)) {
			return false
		}
	}
	return true
}

// ends says that a call may end its lease.
func ends(c *call) bool {
	switch c.name {
	case "Release", "UpdateAndRelease", "Delete", "Detach", "Downgrade", "Do", "DoAll":
		return true
	default:
		return false
	}
}

// cancelled checks the cancels of a ticket, whose events have the values of Enqueue's
// context.
func (l *ledger) cancelled(a *acquire, told map[doubt]int) {
	of, want := doubt{a.by, text([16]byte{})}, 0
	for _, c := range l.calls {
		if c.ticket == a && c.unknown() {
			want = 1
		}
	}
	l.check(OutcomesKnown, told[of] == want, "%s: its cancel was told as unknown %d times, and should be %d times", l.name(a.by), told[of], want)
	delete(told, of)
}
