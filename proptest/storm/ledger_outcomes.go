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
	calls := h.calls
	if h.by.name == "Do" || h.by.name == "DoAll" {
		calls = append([]*call{h.by}, calls...)
	}
	for i := 0; i < len(calls); {
		group := calls[i : i+1]
		if ends(calls[i]) {
			for next := i + 1; next < len(calls) && calls[next].name == "Release" && l.sentBy(calls[next]) == 0; next++ {
				group = calls[i : next+1]
			}
		}
		i += len(group)
		unknown, n := false, 0
		for _, c := range group {
			unknown = unknown || c.unknown()
			n += told[doubt{c, h.id}]
			delete(told, doubt{c, h.id})
		}
		if group[0] == h.by { // its release came after its function, which may have ended the lease
			h.doubts += n
			continue
		}
		if h.doubts > 0 && unknown && ends(group[0]) {
			n, h.doubts = n+h.doubts, 0
		}
		want := 0
		if unknown {
			want = 1
		}
		l.check(OutcomesKnown, n == want, "%s was told as unknown %d times, and should be %d times: %v", l.name(group[0]), n, want, l.story(h))
	}
	l.check(OutcomesKnown, h.doubts == 0, "%s was told as unknown %d times, and no release says so: %v", l.name(h.by), h.doubts, l.story(h))
}

// ends says that a call may end its lease.
func ends(c *call) bool {
	switch c.name {
	case "Release", "UpdateAndRelease", "Delete", "Detach":
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
