package doclock_test

import (
	"context"
	"slices"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// many takes the write locks of n more documents, from _id 100 on.
func (r *rig) many(n int) []*doclock.Lease {
	r.Helper()
	docs := make([]any, n)
	for i := range docs {
		docs[i] = bson.M{"_id": 100 + i}
	}
	if _, err := r.other.InsertMany(r.Context(), docs); err != nil {
		r.Fatal(err)
	}
	leases := make([]*doclock.Lease, n)
	for i := range leases {
		leases[i] = r.take(100+i, "write")
	}
	r.sent.forget()
	return leases
}

func (r *rig) take(id int, tag string) *doclock.Lease {
	r.Helper()
	lease, err := r.locks.TryAcquire(r.Context(), bson.M{"_id": id}, tag)
	if err != nil {
		r.Fatal(err)
	}
	return lease
}

// due keeps leases alive, and then lets the time pass after which they are due.
func (r *rig) due(leases ...*doclock.Lease) (kept []context.Context) {
	for _, l := range leases {
		kept = append(kept, l.KeepAlive(r.Context()))
	}
	r.clock.pass(ttl / 3)
	return kept
}

func fresh(leases ...*doclock.Lease) func() bool {
	return func() bool {
		return !slices.ContainsFunc(leases, func(l *doclock.Lease) bool { return l.Remaining() <= ttl*2/3 })
	}
}

func (r *rig) wantSent(want ...string) {
	r.Helper()
	if sent := r.sent.all(); !slices.Equal(sent, want) {
		r.Errorf("sent %v, want %v", sent, want)
	}
}

func TestOneLeaseIsRenewedByItself(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	r.due(lease)
	fixture.Eventually(t, "a renewal", fresh(lease))
	r.wantSent("findAndModify")
}
