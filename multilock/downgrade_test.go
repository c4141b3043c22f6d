package multilock_test

import (
	"strings"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// downgrade downgrades a lease.
func (p *place) downgrade(lease doclock.Lease, tag string) doclock.Lease {
	p.Helper()
	next, err := lease.Downgrade(p.bounded(), tag)
	if err != nil {
		p.Fatalf("Downgrade: %v", err)
	}
	return next
}

// A writer becomes a reader in one command, and other readers are let in beside
// it. The old lease sends nothing more.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair(), doclock.Owner("ann"))
	lease := p.try(l, "write", doclock.Owner("a job"))
	must(t, lease.Update(t.Context(), bson.M{"$inc": bson.M{"total": 1}}))
	var next doclock.Lease
	p.sends(w, 1, "Downgrade", func() (err error) { next, err = lease.Downgrade(t.Context(), "read"); return err })
	p.sends(w, 0, "Release", func() error { return lease.Release(t.Context()) })
	p.sends(w, 0, "Update", func() error { return lease.Update(t.Context(), plusOne) }, doclock.ErrReleased)
	if next.ID() == lease.ID() || next.Fence() <= lease.Fence() || next.Tag() != "read" || next.Err() != nil {
		t.Errorf("%v with %d after %v with %d: %v", next.ID(), next.Fence(), lease.ID(), lease.Fence(), next.Err())
	}
	p.wantEntries(next)
	if e := p.entries("read")[0]; e.Owner != "a job" {
		t.Errorf("the owner is %q", e.Owner)
	}
	other := p.try(l, "read")
	ok(t, next.Update(t.Context(), bson.M{"$inc": bson.M{"total": 1}}))
	ok(t, next.Renew(t.Context()))
	p.release(next)
	p.release(other)
	p.release(p.try(l, "write"))
}

// A refusal names who is in the way, and the lease goes on. One that only a repeat has found may
// have nobody to name.
func TestDowngradeIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	lease, other := p.try(l, "read"), p.try(l, "read")
	_, err := lease.Downgrade(t.Context(), "write")
	if c := p.conflict(err); c.Tag != "write" || len(c.Holders) != 1 || c.Holders[0].ID != other.ID() || c.RetryAfter <= 0 {
		t.Errorf("the conflict is %+v", c)
	}
	p.wantNot(err, doclock.ErrNotAcquired)
	p.want(lease.Err(), nil)
	ok(t, lease.Update(t.Context(), bson.M{"$inc": bson.M{"total": 1}}))
	p.release(other)
	lease = p.downgrade(lease, "write")
	p.Change(bson.M{"$set": bson.M{"lock.tags.write.0.n": 1}}) // as a refused attempt has
	_, err = lease.Downgrade(t.Context(), "read")
	if c := p.conflict(err); len(c.Holders) != 0 || !strings.Contains(c.Error(), "have left since") || strings.Contains(c.Error(), "by , ") {
		t.Errorf("the conflict is %v", c)
	}
	p.release(p.downgrade(lease, "read"))
	p.wantEntries()
}
