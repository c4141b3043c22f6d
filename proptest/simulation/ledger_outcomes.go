package simulation

import (
	"slices"
	"strings"

	"github.com/doclock/doclock"
)

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
				l.check(OutcomesKnown, e.Err != nil && (!l.exact() || !e.Time.Before(e.call.begun)), "%v", l.show(e))
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
		least, most, n := 0, 0, 0
		for _, c := range group {
			switch {
			case c.late(): // and a command of its own, unless it has waited for the one before
				most++
			case c.gaveUp() && !c.unknown(): // nothing was sent until then; the verdict comes later
				most++
			case c.name == "Lead": // which drops the error of a term that has ended with a loss
				most++
			case c.panicked: // so that nobody has got the error of its release
				most++
			case c.unknown() && !l.exact(): // a command that found no server is not seen
				most++
			case c.unknown():
				most = max(most, 1)
			}
			if c.unknown() && !c.ofSeveral() {
				least = 1
			}
			n += told[doubt{c, h.id}]
			delete(told, doubt{c, h.id})
		}
		l.check(OutcomesKnown, least <= n && n <= most, "%d unknown outcomes were told, and should be %d to %d: %v told: %v", n, least, most, l.stories(group), l.unknowns(h))
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

// unknowns are the unknown outcomes that were told of a lease.
func (l *ledger) unknowns(h *holding) string {
	return l.all(slices.DeleteFunc(slices.Clone(h.program.events), func(e *heard) bool {
		return e.Kind != doclock.EventOutcomeUnknown || text(e.LeaseID) != h.id
	}))
}

// late says that a call's release was not executed, and that the lease's time was up
// then, or others may have been let in before.
func (c *call) late() bool {
	return c.err != nil && strings.Contains(c.err.Error(), "others may have been let in: ")
}

// ending are the calls of a lease, with that of the Do whose release comes after its
// function.
func (h *holding) ending() (calls []*call) {
	do := h.by
	if !do.does() {
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
