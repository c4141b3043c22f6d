package multilock_test

import (
	"slices"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

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
