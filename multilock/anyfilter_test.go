package multilock_test

import (
	"slices"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// If only the server knows which document the filter finds, a waiter gets no
// place in the document before its turn in the wait queue. An earlier place would
// block the waiters ahead of it.
func TestAWaiterByAnyFilterWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair(), doclock.TTL(relayTTL), doclock.WaitTTL(relayTTL))
	var holder *doclock.Lease
	p.sends(w, 1, "an acquire of a free lock", func() (err error) { holder, err = l.Acquire(p.bounded(), byName, "write"); return err })
	var all []*pending[*doclock.Lease]
	for i, filter := range []bson.M{flowers, flowers, byName, flowers, byName} {
		all = append(all, begin(t, func() (*doclock.Lease, error) { return l.Acquire(p.bounded(), filter, "write") }))
		p.queued(l, i+1)
		p.eventually("the first waits in the document", func() bool { return len(p.entries("write")) >= 2 })
	}
	if n := len(p.entries("write")); n != 2 {
		t.Errorf("%d wait in the document, want the first of them alone", n-1)
	}
	fences := []int64{holder.Fence()}
	for _, one := range all {
		p.release(holder)
		holder = p.granted(one)
		fences = append(fences, holder.Fence())
	}
	if !slices.IsSorted(fences) {
		t.Errorf("served out of order: %v", fences)
	}
	p.release(holder)
	p.wantEntries()
}
