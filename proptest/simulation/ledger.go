package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/tally"
)

const (
	EventsBelong   = "each event is of a call, and in order"
	AcquiresEnd    = "an acquire has one end, of the kind that its caller was told, after its waits"
	LeasesEnd      = "a lease has one grant and one end, of the kind that its caller was told"
	OutcomesKnown  = "an unknown outcome is told of a lease whose callers are told so, and of no other"
	RenewalsTold   = "renewals are told of a lease between its grant and its end, with an error if they have failed"
	DurationsRight = "the time of a lease's event is that of its grant and its duration"
	Promised       = "no event's context has ended, and each Close, and each release that is repeated, comes to its end"
	NeverNotFound  = "no caller is told that a document is missing that is there"
	ForeignSkipped = "no claim stops at a lock field of somebody else"
	ReturnsInTime  = "a call, but for one with a function, returns when its context ends, and one that gives back an attempt later"
	LimitsKept     = "a lease with HoldAtMost ends in time"
)

// kinds are the kinds of events, and how they come about.
var kinds = []doclock.Event{
	{Kind: doclock.EventWaiting}, {Kind: doclock.EventWaiting, How: doclock.HowStill}, {Kind: doclock.EventSkipped}, {Kind: doclock.EventGranted},
	{Kind: doclock.EventNotGranted, How: doclock.HowRefused}, {Kind: doclock.EventNotGranted, How: doclock.HowGaveUp}, {Kind: doclock.EventRenewed},
	{Kind: doclock.EventRenewalFailed}, {Kind: doclock.EventLost}, {Kind: doclock.EventReleased}, {Kind: doclock.EventReleased, How: doclock.HowHandedOver},
	{Kind: doclock.EventReleased, How: doclock.HowDetached}, {Kind: doclock.EventReleased, How: doclock.HowConverted}, {Kind: doclock.EventOutcomeUnknown}, {Kind: doclock.EventCleanUpFailed},
}

// seen is the outcome that counts the events of a kind.
func seen(e doclock.Event) string { return "event: " + cmp.Or(string(e.How), string(e.Kind)) }

// ledger compares what callers were told with what observers were told.
type ledger struct {
	*run
	counts *tally.Tally
	lives  map[string][]*life // by program and id
}

// life is a lease as the events tell it.
type life struct {
	id      string
	program *program
	acquire *acquire // or nil of a conversion's
	holding *holding // or nil: no caller has it
	granted *heard
	end     *heard
}

func (s *run) judge(counts *tally.Tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &ledger{run: s, counts: counts, lives: map[string][]*life{}}
	for _, a := range s.acquires { // of a judgement before
		a.events = nil
	}
	l.check(Promised, len(s.found) == 0, "%s", strings.Join(s.found, "; "))
	for _, p := range s.programs {
		for _, e := range p.events {
			counts.Seen(seen(e.Event), 1)
			l.assign(e)
		}
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
	l.missing()
	for _, c := range l.calls {
		l.timed(ReturnsInTime, c.overdue <= c.grace() || c.does(), "%s, %v after that", c, c.overdue)
	}
}

// timed is a check of times, which are exact in virtual time alone.
func (l *ledger) timed(property string, ok bool, format string, args ...any) {
	if l.exact() {
		l.check(property, ok, format, args...)
	}
}

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
	l.check(EventsBelong, e.Collection == e.program.name() && e.Dropped == 0, "%v in %q, %d dropped", e, e.Collection, e.Dropped)
	c := e.call
	if e.Kind == doclock.EventCleanUpFailed {
		l.check(EventsBelong, c == nil && e.Err != nil && e.Owner == "", "%v", e)
		return
	}
	if !l.check(EventsBelong, c != nil && c.program == e.program, "%v has no call", e) {
		return
	}
	l.timed(DurationsRight, !e.Time.Before(c.begun), "%v comes before its call", e)
	id := text(e.LeaseID)
	switch e.Kind {
	case doclock.EventSkipped:
		a := c.wanted(e)
		l.check(EventsBelong, a != nil && a.skip && id == text([16]byte{}) && e.Err != nil, "%v", e)
	case doclock.EventWaiting, doclock.EventNotGranted, doclock.EventGranted:
		a := c.wanted(e)
		if c.name == "Convert" && e.Kind == doclock.EventGranted {
			l.timed(DurationsRight, !e.Time.Add(-e.Waited).Before(c.begun) && e.Time.Equal(c.ended), "%v: %v", e, c.lease.calls)
			l.born(e, nil)
			return
		}
		if c.name == "Lead" && e.Kind != doclock.EventGranted {
			return // of a campaign in between
		}
		if !l.check(EventsBelong, a != nil, "%v is of no acquire", e) {
			return
		}
		a.events = append(a.events, e)
		if e.Kind == doclock.EventGranted {
			l.born(e, a)
		} else {
			l.check(EventsBelong, id == text([16]byte{}), "%v has a lease", e)
		}
	case doclock.EventRenewed, doclock.EventRenewalFailed:
		of := l.life(e)
		if l.check(RenewalsTold, of != nil && of.end == nil && (e.Kind == doclock.EventRenewed) == (e.Err == nil), "%v comes before the grant or after the end, or its error is wrong", e) {
			l.timed(DurationsRight, e.Time.Add(-e.Held).Equal(of.granted.Time), "%v, and it was granted at %s", e, at(of.granted.Time))
		}
	case doclock.EventReleased, doclock.EventLost:
		of := l.life(e)
		if l.check(EventsBelong, of != nil, "%v is of no lease that was granted before", e) &&
			l.check(LeasesEnd, of.end == nil, "%v comes after %v", e, of.end) {
			of.end = e
		}
	}
}

// wanted is the acquire of a call that an event is of.
func (c *call) wanted(e *heard) *acquire {
	name, _ := e.DocumentID.StringValueOK()
	is := func(a *acquire) bool { return a.document == name }
	switch {
	case c.name == "Lead":
		is = func(a *acquire) bool { return a.holding != nil && a.holding.id == text(e.LeaseID) }
	case len(c.acquires) == 1, len(c.acquires) > 1 && c.acquires[0].skip && (name == "" || e.Kind == doclock.EventSkipped):
		return c.acquires[0]
	}
	if i := slices.IndexFunc(c.acquires, is); i >= 0 {
		return c.acquires[i]
	}
	return nil
}

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
		if !of.granted.DocumentID.Equal(e.DocumentID) {
			continue
		}
		if of.granted.call == e.call || of.holding != nil && of.holding == e.call.lease {
			return of
		}
	}
	return nil
}

// outcomes compares the unknown outcomes of the events with those that callers were told:
// of a lease, and of the cancels of a ticket. A caller who has left, or got another
// error, may have been told nothing.
func (l *ledger) outcomes() {
	told, may, must := map[string]int{}, map[string]int{}, map[string]*call{}
	of := func(c *call, id string) string {
		if id == text([16]byte{}) { // a ticket's events have the values of Enqueue's context
			return fmt.Sprint("ticket of call ", c.number)
		}
		return key(c.program, id)
	}
	note := func(c *call, key string) {
		if c.unknown() && !c.ofSeveral() {
			must[key] = c
		}
		if c.unknown() || c.late() || c.gaveUp() || c.panicked || c.name == "Lead" {
			may[key]++
		}
	}
	for _, c := range l.calls {
		switch {
		case c.lease != nil:
			note(c, of(c, c.lease.id))
		case c.ticket != nil:
			note(c, of(c.ticket.by, text([16]byte{})))
		}
		for _, a := range c.acquires {
			if c.does() && a.holding != nil {
				note(c, of(c, a.holding.id))
			}
		}
	}
	for _, p := range l.programs {
		for _, e := range p.events {
			if e.Kind == doclock.EventOutcomeUnknown && e.call != nil {
				k := of(e.call, text(e.LeaseID))
				told[k]++
				l.check(OutcomesKnown, e.Err != nil && told[k] <= may[k], "%v, the %d. of %s, and %d callers may have been told", e, told[k], k, may[k])
			}
		}
	}
	for k, c := range must {
		l.check(OutcomesKnown, told[k] > 0, "%s: no observer was told", c)
	}
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
		l.check(LeasesEnd, known[h], "lease %s of %s was not told", h.id, h.by)
	}
}

func (e *heard) String() string {
	if e == nil {
		return "nothing"
	}
	id, _ := e.DocumentID.StringValueOK()
	return fmt.Sprintf("%q at %s of %s, lease %.8s, %q in %q, waited %v, held %v, error %v", e.Kind, at(e.Time), e.call, text(e.LeaseID), e.Tag, id, e.Waited, e.Held, e.Err)
}

func (c *call) String() string {
	if c == nil {
		return "no call"
	}
	return fmt.Sprintf("%s#%d (program %d, %s to %s, error %v)", c.name, c.number, c.program.number, at(c.begun), at(c.ended), c.err)
}

func at(t time.Time) string { return t.Format("04:05.000000") }

// This file checks how acquires end. Which kind of end each error has, and what is told of
// a wait, package multilock tests.

// acquire checks one. Those of a campaign are known by their grants alone.
func (l *ledger) acquire(a *acquire) {
	if a.by.name == "Lead" {
		return
	}
	var ends []*heard
	waits, behind := 0, false
	for _, e := range a.events {
		l.timed(DurationsRight, !e.Time.Add(-e.Waited).Before(a.by.begun), "%v has waited since before its call", e)
		if e.Kind == doclock.EventWaiting {
			if e.How == "" {
				waits, behind = waits+1, len(e.Holders) > 0
			}
			l.check(AcquiresEnd, len(ends) == 0 && waits <= 1, "%v comes after the end, or again", e)
			continue
		}
		ends = append(ends, e)
	}
	least, most := l.ends(a)
	if l.check(AcquiresEnd, least <= len(ends) && len(ends) <= most, "%s has %d ends, and should have %d to %d", a.by, len(ends), least, most) && len(ends) == 1 {
		l.end(a, ends[0], behind)
	}
}

// ends is how many ends the acquire has. One of several may never have begun, and a
// ticket may be left alone.
func (l *ledger) ends(a *acquire) (least, most int) {
	c := a.by
	yes, no := l.begun(a)
	switch {
	case no:
		return 0, 0
	case !yes:
		return 0, 1
	case a.holding != nil, a.cancelled:
		return 1, 1
	case len(c.acquires) > 1, a.ticket && c.err == nil && !c.panicked:
		return 0, 1
	default:
		return 1, 1
	}
}

// begun says whether the call was certainly begun, or certainly refused before.
func (l *ledger) begun(a *acquire) (yes, no bool) {
	c := a.by
	closed := c.program.closed
	atClose := !closed.IsZero() && errors.Is(c.err, doclock.ErrClosed)
	switch {
	case errors.Is(c.err, doclock.ErrInvalidArgument), errors.Is(c.err, doclock.ErrInTransaction):
		return false, true
	case atClose && c.begun.After(closed) && l.exact():
		return false, true
	case atClose && !c.begun.Before(closed), c.over != nil && (c.ended.Equal(c.begun) || !l.exact()):
		return false, false
	default:
		return true, false
	}
}

// end checks the kind of an end, and its error, by what the caller was told. Leases of
// several are given back if the call fails, and nobody may ask for what Enqueue was
// granted.
func (l *ledger) end(a *acquire, e *heard, behind bool) {
	c := a.by
	granted := e.Kind == doclock.EventGranted
	l.check(AcquiresEnd, granted == (e.Err == nil), "%v", e)
	switch {
	case a.holding != nil:
		l.check(AcquiresEnd, granted && (len(e.Holders) > 0 || !behind), "%v, and the caller has a lease, behind holders: %v", e, behind)
	case len(c.acquires) > 1:
		l.check(AcquiresEnd, c.err != nil || c.panicked, "%v, and its caller was told nothing", e)
	case a.ticket && c.err == nil && !c.panicked:
		l.check(AcquiresEnd, granted || errors.Is(e.Err, doclock.ErrNotAcquired), "%v of a ticket", e)
	case c.panicked:
		l.check(AcquiresEnd, e.How == doclock.HowGaveUp, "%v, and its own code has panicked", e)
	default:
		l.check(AcquiresEnd, !granted && c.err != nil && e.Err.Error() == c.err.Error(), "%v, and the caller was told %v", e, c.err)
		refused := errors.Is(c.err, doclock.ErrConflict) || errors.Is(c.err, doclock.ErrNotFound)
		l.check(AcquiresEnd, refused || e.How == doclock.HowGaveUp, "%v, and the caller was told %v", e, c.err)
	}
}

// This file checks how leases begin and end.

func (l *ledger) lease(of *life) {
	g, e, h := of.granted, of.end, of.holding
	l.check(LeasesEnd, g.Err == nil && g.Held == 0, "%v", g)
	if !l.check(LeasesEnd, e != nil, "%v has no end", g) {
		return
	}
	l.timed(DurationsRight, e.Time.Add(-e.Held).Equal(g.Time), "%v, and it was granted at %s", e, at(g.Time))
	l.check(LeasesEnd, e.Fence == g.Fence && e.Tag == g.Tag && e.Owner == g.Owner && e.DocumentID.Equal(g.DocumentID), "%v is of another lease than %v", e, g)
	if g.call.name == "Lead" {
		l.counts.Seen(SeenLed, 1)
	}
	if h == nil {
		l.nobodys(of)
		return
	}
	l.check(LeasesEnd, g.Tag == h.lease.Tag() && g.Fence == h.lease.Fence() && g.DocumentID.Equal(h.lease.DocumentID()), "%v, and the lease is %q, %d", g, h.lease.Tag(), h.lease.Fence())
	if of.acquire != nil && of.acquire.owner != "" {
		l.check(LeasesEnd, g.Owner == of.acquire.owner, "%v should have the owner %q", g, of.acquire.owner)
	}
	if of.acquire != nil && of.acquire.most > 0 && l.exact() {
		l.limit(of)
	}
	if !h.lost.IsZero() {
		l.timed(LeasesEnd, !e.Time.After(h.lost) && (e.Kind == doclock.EventLost || e.Time.Before(h.lost) || e.Err != nil), "%v, and it was lost at %s", e, at(h.lost))
	}
	switch {
	case e.Kind == doclock.EventLost:
		l.check(EventsBelong, e.call == g.call || ends(e.call), "%v has the values of another call than %v", e, g)
		l.check(LeasesEnd, errors.Is(e.Err, doclock.ErrLost) && (!h.lost.IsZero() || l.toldLost(of)), "%v, and its caller was not told so: %v", e, h.calls)
	case e.How == doclock.HowHandedOver:
		l.check(LeasesEnd, e.Err == nil && e.call.name != "Convert", "%v", e)
	default:
		l.check(LeasesEnd, !h.alone, "%v, and it was left alone", e)
		l.released(of)
	}
}

// grace is an attempt of a call that gives back a lease, or of a resume that can't decode: its TTL may be twice the usual.
func (c *call) grace() time.Duration {
	switch c.name {
	case "Release":
		return c.program.ttl(c.lease.group) / 3
	case "Resume":
		return 2 * c.program.ttl(c.token.group) / 3
	default:
		return 0
	}
}

// nobodys checks the lease that no caller has: its acquire of several has failed, or
// nobody has asked for what Enqueue was granted.
func (l *ledger) nobodys(of *life) {
	a := of.acquire
	failed := a != nil && (len(a.by.acquires) > 1 && (a.by.err != nil || a.by.panicked) || a.ticket)
	l.check(LeasesEnd, failed, "%v, and no caller has the lease", of.granted)
	if failed && !a.ticket {
		l.check(LeasesEnd, of.end.How != doclock.HowDetached, "%v of a lease that was given back", of.end)
	}
}

// limit checks that a lease with HoldAtMost has ended in time, or the call that ends it
// had begun by then.
func (l *ledger) limit(of *life) {
	l.counts.Seen(SeenLimited, 1)
	e, most := of.end, of.acquire.most
	begun := e.call.begun
	if e.call == of.granted.call {
		begun = e.call.worked
	}
	inTime := !begun.Before(of.granted.Time) && begun.Sub(of.granted.Time) <= most
	l.check(LimitsKept, inTime || e.Held <= most, "%v, and should have been held for %v at most", e, most)
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

// late says that a call's release was not executed, and that the lease's time was up
// then, or others may have been let in before.
func (c *call) late() bool {
	return c.err != nil && strings.Contains(c.err.Error(), "others may have been let in: ")
}

// released checks an end by the holder: the kind, and the error, by what its caller was
// told. A caller who has left, or who was told of a write, learns it from a later call.
func (l *ledger) released(of *life) {
	e, h, c := of.end, of.holding, of.end.call
	want := map[string]doclock.EventHow{"Detach": doclock.HowDetached, "Convert": doclock.HowConverted}[c.name]
	l.check(LeasesEnd, e.Kind == doclock.EventReleased && e.How == want && !errors.Is(e.Err, doclock.ErrLost), "%v, and should be %q", e, want)
	failed := c.err != nil
	switch {
	case c.name == "Do" && !c.panicked:
		failed = failed && (c.work == nil || c.err.Error() != c.work.Error())
	case c.lease == nil, failed && (c.gaveUp() || c.name == "UpdateAndRelease" || c.name == "Delete"):
		return
	case c.panicked: // by its monitor, perhaps after an attempt without an answer
		ok := e.Err == nil || errors.Is(e.Err, doclock.ErrOutcomeUnknown) || strings.Contains(e.Err.Error(), thrown)
		l.check(LeasesEnd, ok, "%v, and its monitor has panicked", e)
		return
	case failed && e.Err != nil:
		l.check(LeasesEnd, e.Err.Error() == c.err.Error(), "%v, and its caller was told %v", e, c.err)
	}
	l.check(LeasesEnd, failed == (e.Err != nil), "%v, and its caller was told %v: %v", e, c.err, h.calls)
}

// missing checks that nobody is told so of a document that nobody deletes, and no claim that
// a lock field is foreign. What the function of a call returns is no verdict.
func (l *ledger) missing() {
	for _, c := range l.calls {
		told := func(of error) bool { return errors.Is(c.err, of) && !errors.Is(c.work, of) }
		switch {
		case len(c.acquires) != 1:
		case c.acquires[0].open:
		case c.acquires[0].skip:
			l.check(ForeignSkipped, !told(doclock.ErrForeignLock) || c.over != nil, "%s", c)
		case slices.Contains(c.acquires[0].group.documents, c.acquires[0].document) && !slices.Contains(c.acquires[0].group.deleted, c.acquires[0].document):
			l.check(NeverNotFound, !told(doclock.ErrNotFound), "%s", c)
		}
	}
}
