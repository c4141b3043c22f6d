package multilock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// unrelated are two locks that have nothing to do with each other.
var unrelated = relations.Rules{"a": {"a": {Kind: relations.Cooperative}}, "b": {"b": {Kind: relations.Cooperative}}}

// A lock that another process gives back is noticed, whatever else this process
// holds, and whoever else stands in line. All times are so long that nothing is
// granted by an expiry.
func TestTheOthersReleaseIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules                        relations.Rules
		ours, theirs, before, waiter string
	}{
		"beside an own holder that is tolerated":   {relations.Semaphore(2), "slot", "slot", "", "slot"},
		"behind who waits for an own holder":       {relations.MultiGranularity(), "IS", "IX", "X", "S"},
		"behind who waits for another, unrelated":  {unrelated, "a", "b", "a", "b"},
		"before who waits for another, unrelated":  {unrelated, "b", "a", "", "a"},
		"where nothing else is held, as a control": {unrelated, "", "b", "", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			here, there := p.locker(p.coll, c.rules, doclock.TTL(relayTTL), doclock.WaitTTL(relayTTL)), p.locker(p.coll, c.rules, doclock.TTL(relayTTL))
			if c.ours != "" {
				p.try(here, c.ours)
			}
			theirs, standing := p.try(there, c.theirs), 0
			ctx, cancel := context.WithTimeout(t.Context(), promptly)
			defer cancel()
			wait := func(tag string) *pending[*doclock.Lease] {
				waiter := acquire(t, ctx, here, tag)
				standing++
				p.standing(here, standing)
				return waiter
			}
			if c.before != "" {
				wait(c.before)
			}
			waiter := wait(c.waiter)
			p.release(theirs)
			if _, err := waiter.wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Where only the server knows the document, a waiter has no place in it before
// its turn here has come: it would keep back those who came before.
func TestAWaiterByAnyFilterStandsInLine(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair(), doclock.TTL(relayTTL), doclock.WaitTTL(relayTTL))
	var holder *doclock.Lease
	p.sends(w, 1, "an acquire of a free lock", func() (err error) { holder, err = l.Acquire(p.bounded(), byName, "write"); return err })
	var all []*pending[*doclock.Lease]
	for i, filter := range []bson.M{flowers, flowers, byName, flowers, byName} {
		all = append(all, begin(t, func() (*doclock.Lease, error) { return l.Acquire(p.bounded(), filter, "write") }))
		p.standing(l, i+1)
		p.eventually("the first waits in the document", func() bool { return len(p.entries("write")) >= 2 })
	}
	if n := len(p.entries("write")); n != 2 {
		t.Errorf("%d wait in the document, want the first of those in line", n-1)
	}
	tokens := []int64{holder.Fence()}
	for _, one := range all {
		p.release(holder)
		holder = p.granted(one)
		tokens = append(tokens, holder.Fence())
	}
	if !slices.IsSorted(tokens) {
		t.Errorf("served out of order: %v", tokens)
	}
	p.release(holder)
	p.wantEntries()
}

// An own holder alone is not asked about, beside another one of its process
// either.
func TestOwnHoldersAreNotAskedAbout(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Semaphore(2), doclock.TTL(relayTTL), doclock.WaitTTL(relayTTL))
	first, second := p.try(l, "slot"), p.try(l, "slot")
	third := acquire(t, p.bounded(), l, "slot")
	p.eventually("it waits in the document", func() bool { return len(p.entries("slot")) == 3 })
	p.standing(l, 1)
	w.commands()
	time.Sleep(200 * time.Millisecond) // in which polls would come every few milliseconds
	if sent := w.commands(); len(sent) != 0 {
		t.Errorf("the line sent %v", sent)
	}
	p.release(first)
	p.release(p.granted(third))
	p.release(second)
}

// The server's clock is set back, so that the holder's time, by what was seen
// before, ends long before its end. Nobody asks without a pause.
func TestAServersClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	at := newClock()
	coll, w := p.watched()
	here, there := p.locker(coll, relations.Exclusive(), at.drive(), doclock.ClockTolerance(0)), p.locker(p.coll, relations.Exclusive(), at.drive(), doclock.ClockTolerance(0), short(500*time.Millisecond))
	p.try(there, "write") // and dies
	waiter := acquire(t, p.bounded(), here, "write")
	p.eventually("it has asked", func() bool { return w.count() > 0 })
	at.pass(-time.Minute)
	time.Sleep(600 * time.Millisecond) // until the end that was seen first
	w.commands()
	time.Sleep(500 * time.Millisecond) // in which it would ask hundreds of times
	if n := w.count(); n > 50 {
		t.Errorf("%d commands in half a second", n)
	}
	at.pass(time.Minute + time.Second)
	p.release(p.granted(waiter))
}
