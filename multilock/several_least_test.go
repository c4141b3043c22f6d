package multilock_test

import (
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
)

// Rule 25. An AcquireAll that returns no leases leaves no remainders. Without it
// others are kept out of the documents that it had locked, though no job ran.
func TestRule25AcquireAllInVainLeavesNothing(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 3)
	ours, theirs := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())
	last, err := theirs.TryAcquire(p.bounded(), doclock.ID(3), "write")
	if err != nil {
		t.Fatal(err)
	}
	hold := doclock.HoldAtLeast(time.Hour)
	_, err = multilock.AcquireAll(p.bounded(),
		ours.Want(doclock.ID(1), "write", hold),
		ours.Want(doclock.ID(2), "write", hold),
		ours.Want(doclock.ID(3), "write", hold, doclock.MaxWait(0)))
	p.want(err, doclock.ErrConflict, doclock.ErrNotAcquired)
	p.release(last)
	for id := 1; id <= 3; id++ {
		if entries := p.at(id).Lock.Tags["write"]; len(entries) != 0 {
			t.Errorf("document %d has %+v", id, entries)
		}
	}
}
