package multilock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The protocol's rule 23. Each test is a trace that breaks without a part of the
// rule. The mutants in proptest/mutants remove the parts.

// total is the document's total.
func (p *place) total() int32 {
	p.Helper()
	return int32(p.Stored().Lookup("total").AsInt64())
}

// Two resumes race. The later one has the entry, and both leases exclude others.
func TestRule23TwoResumesRace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	here, there := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())
	token := p.detach(p.try(here, "write"))
	var calls []*pending[*doclock.Lease]
	for _, l := range []*multilock.Locker{here, there, here, there} {
		calls = append(calls, begin(t, func() (*doclock.Lease, error) { return l.Resume(p.bounded(), token) }))
	}
	applied := 0
	var last *doclock.Lease
	for _, c := range calls {
		lease := p.got(c.wait())
		if last == nil || lease.Fence() > last.Fence() {
			last = lease
		}
	}
	for _, c := range calls {
		switch err := c.value.Update(p.bounded(), plusOne); {
		case err == nil && c.value == last:
			applied++
		case !errors.Is(err, doclock.ErrLost):
			t.Errorf("an earlier lease's write: %v", err)
		}
	}
	if got := p.total(); applied != 1 || got != 2 {
		t.Errorf("%d applied, the total is %d", applied, got)
	}
	p.release(last)
}

// Resume of an entry that has a handle keeps others out for the time of that
// handle, whatever its successors do. Without it one user resumes, a second user
// resumes and releases, and another client is granted while the first user's
// lease is valid.
func TestRule23OthersAreKeptOutForAnEarlierHandle(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*place, *doclock.Lease) error{
		"release":            func(p *place, l *doclock.Lease) error { return l.Release(p.bounded()) },
		"update and release": func(p *place, l *doclock.Lease) error { return l.UpdateAndRelease(p.bounded(), plusOne) },
		"update by pipeline, released": func(p *place, l *doclock.Lease) error {
			return l.UpdateAndRelease(p.bounded(), bson.A{bson.M{"$set": bson.M{"a": 1}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			now := &clock{}
			l := p.locker(p.coll, relations.Exclusive(), now.drive(), doclock.TTL(time.Minute), doclock.ClockTolerance(0))
			token := p.detach(p.try(l, "write"))
			first := p.resume(l, token)
			now.Pass(30 * time.Second)
			second := p.resume(l, token)
			must(t, end(p, second))
			p.gone(l, token)
			now.Pass(29 * time.Second)
			if first.Err() != nil {
				t.Fatal("the first lease is over")
			}
			p.want(errOf(l.TryAcquire(p.bounded(), flowers, "write")), doclock.ErrConflict)
			now.Pass(time.Second)
			p.release(p.try(l, "write"))
		})
	}
}

// A detached entry keeps others out for no earlier handle.
func TestRule23NoRemainderIfEachUserDetaches(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	token := p.detach(p.try(l, "write"))
	token = p.detach(p.resume(l, token))
	p.release(p.resume(l, token))
	p.wantEntries()
	p.release(p.try(l, "write"))
}
