package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/tally"
)

// The properties.
const (
	EventsBelong   = "each event is of a call, and in order"
	AcquiresEnd    = "an acquire has one end, of the kind that its caller was told"
	AcquiresWait   = "an acquire tells its wait once, if it was kept back"
	LeasesEnd      = "a lease has one grant and one end, of the kind that its caller was told"
	LossesInTime   = "a loss is told when the lease's time is up"
	OutcomesKnown  = "an unknown outcome is told once for each command whose caller is told so"
	RenewalsTold   = "renewals are told of a lease between its grant and its end, with an error if they have failed"
	CommandsRight  = "commands are counted as the driver sent them"
	DurationsRight = "times and durations are exact"
	EntriesKnown   = "an entry that stays has an explanation"
	CleanUpsTold   = "a clean-up is told as failed after its command has failed"
	Promised       = "all observers have each event, in spite of panics"
	NestedRefused  = "an acquire that its own context keeps back is refused at once, and is not the outer one's"
	LimitsKept     = "a lease with HoldAtMost ends in time"
)

// kinds are the kinds of events.
var kinds = []doclock.EventKind{
	doclock.EventWaiting, doclock.EventStillWaiting, doclock.EventSkipped, doclock.EventGranted, doclock.EventRefused, doclock.EventGaveUp, doclock.EventRenewed, doclock.EventRenewalFailed,
	doclock.EventLost, doclock.EventReleased, doclock.EventHandedOver, doclock.EventDetached, doclock.EventOutcomeUnknown, doclock.EventCleanUpFailed, doclock.EventClockJumped,
}

// seen is the outcome that counts the events of a kind.
func seen(kind doclock.EventKind) string { return "event: " + string(kind) }

// ledger compares what callers, observers and the driver's monitors have seen.
type ledger struct {
	*run
	counts *tally.Tally
	lives  map[string][]*life // by program and id
}

// life is a lease as the events tell it.
type life struct {
	id      string
	program *program
	acquire *acquire // or nil of a downgrade's
	holding *holding // or nil: no caller has it
	granted *heard
	end     *heard
}

// judge checks everything, and counts it.
func (s *run) judge(counts *tally.Tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &ledger{run: s, counts: counts, lives: map[string][]*life{}}
	for _, a := range s.acquires { // of a judgement before
		a.events = nil
	}
	l.check(Promised, len(s.found) == 0, "%s", strings.Join(s.found, "; "))
	thrown := 0
	for _, p := range s.programs {
		for _, ear := range p.ears {
			thrown += ear.panics
			l.check(Promised, ear.burdens == ear.heard || !s.slow && !s.panicky, "the first observer of a Locker of program %d had %d events, and the second %d", p.number, ear.burdens, ear.heard)
		}
		for _, e := range p.events {
			counts.Seen(seen(e.Kind), 1)
			l.assign(e)
		}
	}
	if s.panics != nil {
		l.check(Promised, int(s.panics.n.Load()) == thrown, "%d panics were logged, of %d", s.panics.n.Load(), thrown)
	}
	for _, a := range s.acquires {
		l.acquire(a)
	}
	l.orphans()
	for _, lives := range l.lives {
		for _, of := range lives {
			l.lease(of)
		}
	}
	l.outcomes()
	if l.exact() {
		l.entries()
	}
}

// timed is a check of times, which are exact in virtual time alone.
func (l *ledger) timed(property string, ok bool, format string, args ...any) {
	if l.exact() {
		l.check(property, ok, format, args...)
	}
}

// check counts a check, and a violation if it fails.
func (l *ledger) check(property string, ok bool, format string, args ...any) bool {
	l.counts.Checked(property, 1)
	if !ok {
		l.counts.Violated(property, "seed %d: %s", l.seed, fmt.Sprintf(format, args...))
	}
	return ok
}

func key(p *program, id string) string { return fmt.Sprint(p.number, id) }

// assign finds what an event is of. The events of one program come in order.
func (l *ledger) assign(e *heard) {
	l.check(EventsBelong, e.Collection == e.program.name() && e.Dropped == 0, "%v in %q, %d dropped", l.show(e), e.Collection, e.Dropped)
	c := e.call
	if e.Kind == doclock.EventCleanUpFailed {
		l.check(EventsBelong, c == nil && e.Err != nil && e.Owner == "", "%v", l.show(e))
		return
	}
	if e.Kind == doclock.EventClockJumped { // in memory the clock is only turned forward
		l.check(EventsBelong, e.Err == nil && e.Jump != 0 && (e.Jump > 0 || !l.exact()), "%v by %v", l.show(e), e.Jump)
		return
	}
	if !l.check(EventsBelong, c != nil && c.program == e.program, "%v has no call", l.show(e)) {
		return
	}
	l.timed(DurationsRight, !e.Time.Before(c.begun), "%v comes before its call", l.show(e))
	id := text(e.LeaseID)
	switch e.Kind {
	case doclock.EventSkipped:
		a := c.wanted(e)
		l.check(EventsBelong, a != nil && a.skip && a.ended() == "" && id == text([16]byte{}) && e.Err != nil, "%v", l.show(e))
	case doclock.EventWaiting, doclock.EventStillWaiting, doclock.EventRefused, doclock.EventGaveUp, doclock.EventGranted:
		a := c.wanted(e)
		if c.name == "Downgrade" && e.Kind == doclock.EventGranted {
			l.timed(DurationsRight, !e.Time.Add(-e.Waited).Before(c.begun) && e.Time.Equal(c.ended), "%v: %v", l.show(e), l.story(c.lease))
			l.born(e, nil)
			return
		}
		if c.name == "Lead" && e.Kind != doclock.EventGranted {
			return // of a campaign in between
		}
		if !l.check(EventsBelong, a != nil, "%v is of no acquire", l.show(e)) {
			return
		}
		a.events = append(a.events, e)
		if e.Kind == doclock.EventGranted {
			l.born(e, a)
		} else {
			l.check(EventsBelong, id == text([16]byte{}), "%v has a lease", l.show(e))
		}
	case doclock.EventRenewed, doclock.EventRenewalFailed:
		of := l.life(e)
		if l.check(RenewalsTold, of != nil && of.end == nil && (e.Kind == doclock.EventRenewed) == (e.Err == nil), "%v comes before the grant or after the end, or its error is wrong", l.show(e)) {
			l.timed(DurationsRight, e.Time.Add(-e.Held).Equal(of.granted.Time), "%v, and it was granted at %s", l.show(e), at(of.granted.Time))
		}
	case doclock.EventReleased, doclock.EventHandedOver, doclock.EventDetached, doclock.EventLost:
		of := l.life(e)
		if l.check(EventsBelong, of != nil, "%v is of no lease that was granted before", l.show(e)) &&
			l.check(LeasesEnd, of.end == nil, "%v comes after %v", l.show(e), l.show(of.end)) {
			of.end = e
		}
	}
}

// wanted is the acquire of a call that an event is of.
func (c *call) wanted(e *heard) *acquire {
	if c.name == "Lead" {
		i := slices.IndexFunc(c.acquires, func(a *acquire) bool { return a.holding != nil && a.holding.id == text(e.LeaseID) })
		if i < 0 {
			return nil
		}
		return c.acquires[i]
	}
	if len(c.acquires) == 1 {
		return c.acquires[0]
	}
	name, _ := e.DocumentID.StringValueOK()
	i := slices.IndexFunc(c.acquires, func(a *acquire) bool { return a.document == name })
	if i < 0 {
		return nil
	}
	return c.acquires[i]
}

// born begins a life.
func (l *ledger) born(e *heard, a *acquire) {
	of := &life{id: text(e.LeaseID), program: e.program, acquire: a, granted: e}
	for _, h := range l.holdings {
		if h.id == of.id && h.program == e.program && (a != nil && h.of == a || a == nil && h.by == e.call) {
			of.holding = h
		}
	}
	k := key(e.program, of.id)
	l.lives[k] = append(l.lives[k], of)
}

// life is the one that an event ends. Several leases may have one id.
func (l *ledger) life(e *heard) *life {
	for _, of := range l.lives[key(e.program, text(e.LeaseID))] {
		if of.granted.call == e.call || of.holding != nil && of.holding == e.call.lease {
			return of
		}
	}
	return nil
}

// orphans are leases that callers have got, and no observer was told of.
func (l *ledger) orphans() {
	known := map[*holding]bool{}
	for _, lives := range l.lives {
		for _, of := range lives {
			known[of.holding] = true
		}
	}
	for _, h := range l.holdings {
		l.check(LeasesEnd, known[h], "lease %s of %s was not told", h.id, l.name(h.by))
	}
}

// unsureIn says that no server could be reached at a time between the two: what
// counts as sent may not have left.
func (l *ledger) unsureIn(from, to time.Time) bool {
	return slices.ContainsFunc(l.unsure, func(s span) bool { return !s.to.Before(from) && !s.from.After(to) })
}

// show describes an event.
func (l *ledger) show(e *heard) string {
	if e == nil {
		return "nothing"
	}
	id, _ := e.DocumentID.StringValueOK()
	return fmt.Sprintf("%q at %s of %s, lease %.8s, %q in %q, waited %v, held %v, %d commands, error %v",
		e.Kind, at(e.Time), l.name(e.call), text(e.LeaseID), e.Tag, id, e.Waited, e.Held, e.Commands, e.Err)
}

// name describes a call.
func (l *ledger) name(c *call) string {
	if c == nil {
		return "no call"
	}
	return fmt.Sprintf("%s#%d (program %d, %s to %s, error %v)", c.name, c.number, c.program.number, at(c.begun), at(c.ended), c.err)
}

func at(t time.Time) string { return t.Format("04:05.000000") }
