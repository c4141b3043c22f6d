package multilock_test

import (
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Rule 24. A refusal is final for all attempts. Without it the first attempt is
// late, the second is refused, the holder goes on under its old tag, and the first
// is executed: others are let in beside a valid lease.
func TestRule24ALateDowngradeIsRefusedToo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l, there := p.locker(coll, relations.Fair()), p.locker(p.coll, relations.Fair())
	lease, other := p.try(l, "read"), p.try(there, "read")
	first := net.Arm(faultnet.Hold, "findAndModify")
	_, err := lease.Downgrade(p.bounded(), "write")
	wait(t, first.Fired())
	p.conflict(err)
	p.release(other)
	if err := lease.Update(t.Context(), bson.M{"$inc": bson.M{"total": 1}}); err != nil {
		t.Error(err)
	}
	before := p.raw()
	if err := first.Let(); err != nil {
		t.Fatal(err)
	}
	if after := p.raw(); string(after) != string(before) {
		t.Errorf("%v became %v", before, after)
	}
	p.wantEntries(lease)
	p.release(lease)
}

// Rule 24. A late attempt of a downgrade that was granted extends the new entry,
// and after that entry's release it finds nothing.
func TestRule24ALateDowngradeMakesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Fair())
	lease := p.try(l, "write")
	first := net.Arm(faultnet.Hold, "findAndModify")
	next := p.downgrade(lease, "read")
	wait(t, first.Fired())
	p.wantEntries(next)
	p.release(next)
	if err := first.Let(); err != nil {
		t.Fatal(err)
	}
	p.wantEntries()
}

// Rule 24. A first user of a token keeps others out, although the second one
// downgrades: the downgrade is refused until the first user's lease is over.
func TestRule24DowngradeWaitsForAnEarlierHandle(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair(), short(time.Second))
	token := p.detach(p.try(l, "write"))
	first := p.resume(l, token)
	second := p.resume(l, token)
	_, err := second.Downgrade(t.Context(), "read")
	if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != second.ID() {
		t.Errorf("the conflict is %+v", c)
	}
	kept := second.KeepAlive(t.Context())
	<-first.Done()
	var next *doclock.Lease
	p.eventually("the downgrade is granted", func() bool {
		next, err = second.Downgrade(t.Context(), "read")
		return err == nil
	})
	<-kept.Done()
	p.gone(l, token)
	p.release(next)
}
