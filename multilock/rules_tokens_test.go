package multilock_test

import (
	"errors"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
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
