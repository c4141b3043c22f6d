package multilock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The life of a lease, with what each event says.
func TestEventsOfALease(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.locker(p.coll, relations.Exclusive(), option, doclock.Owner("ann"))
	begun := time.Now()
	lease := p.try(l, "write")
	if err := lease.Renew(p.bounded()); err != nil {
		t.Fatal(err)
	}
	p.release(lease)
	for i, e := range h.want("granted 1", "renewed 1", "released 2") {
		if e.Collection != p.coll.Database().Name()+".documents" || !e.DocumentID.Equal(lease.DocumentID()) || e.Tag != "write" || e.Owner != "ann" ||
			e.LeaseID != lease.ID() || e.Fence != lease.Fence() || e.Time.Before(begun.Add(-time.Millisecond)) || e.Time.After(time.Now()) {
			t.Errorf("event %d: %+v", i, e)
		}
		if (e.Waited > 0) != (i == 0) || e.Waited > time.Since(begun) || (e.Held > 0) != (i > 0) || e.Held > time.Since(begun) || e.Err != nil || e.Holders != nil {
			t.Errorf("event %d: waited %v, held %v, error %v, holders %v", i, e.Waited, e.Held, e.Err, e.Holders)
		}
	}

	lease = p.try(l, "write", doclock.OwnedBy("bob"))
	_, err := l.TryAcquire(p.bounded(), flowers, "write")
	p.want(err, doclock.ErrConflict)
	_, err = l.TryAcquire(p.bounded(), bson.M{"_id": 2}, "write")
	p.want(err, doclock.ErrNotFound)
	p.erase("write")
	p.want(lease.Release(p.bounded()), doclock.ErrLost)
	all := h.want("granted 1", "refused 1", "refused 1", "lost 1")
	if refused := all[1]; all[0].Owner != "bob" || len(refused.Holders) != 1 || refused.Holders[0].Owner != "bob" || !errors.Is(refused.Err, doclock.ErrConflict) ||
		refused.LeaseID != uuid.Nil || !refused.DocumentID.Equal(lease.DocumentID()) {
		t.Errorf("granted %+v, refused %+v", all[0], refused)
	}
	if p.want(all[2].Err, doclock.ErrNotFound, doclock.ErrNotAcquired); !errors.Is(all[3].Err, doclock.ErrLost) {
		t.Errorf("lost with %v", all[3].Err)
	}

	// What is refused before it begins sends no event.
	_, err = l.TryAcquire(p.bounded(), flowers, "no tag")
	p.want(err, doclock.ErrInvalidArgument)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Acquire(over, flowers, "write")
	p.want(err, context.Canceled)
	p.rest(l)
	_, err = l.Acquire(p.bounded(), flowers, "write")
	p.want(err, doclock.ErrClosed)
	if more := h.events(); len(more) > 0 {
		t.Errorf("told %v", more)
	}
}

// A token's users: a detach, a resume that takes the entry, a touch that is no event.
func TestEventsOfTokens(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.locker(p.coll, relations.Exclusive(), option)
	lease := p.try(l, "write")
	token := p.detach(lease)
	if err := l.Touch(p.bounded(), token); err != nil {
		t.Fatal(err)
	}
	first := p.resume(l, token, doclock.OwnedBy("bob"))
	second := p.resume(l, token)
	p.want(first.Release(p.bounded()), doclock.ErrLost)
	p.release(second)
	all := h.want("granted 1", "detached 1", "granted 1", "granted 1", "lost", "released 1")
	if all[1].LeaseID != lease.ID() || all[2].LeaseID != first.ID() || all[2].Owner != "bob" || all[4].LeaseID != first.ID() || all[5].LeaseID != second.ID() {
		t.Errorf("told %+v", all)
	}
	_, err := l.Resume(p.bounded(), token)
	p.want(err, doclock.ErrLost)
	if e := h.want("gave up 1")[0]; !e.DocumentID.Equal(lease.DocumentID()) || !errors.Is(e.Err, doclock.ErrNotAcquired) {
		t.Errorf("the last: %+v", e)
	}
}

// A downgrade ends one lease and begins another.
func TestEventsOfADowngrade(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.locker(p.coll, relations.WritePreferring(), option)
	writer := p.try(l, "write", doclock.OwnedBy("ann"))
	reader, err := writer.Downgrade(p.bounded(), "read")
	if err != nil {
		t.Fatal(err)
	}
	p.release(reader)
	all := h.want("granted 1", "released 1", "granted 0", "released 1")
	if e := all[2]; all[1].LeaseID != writer.ID() || e.LeaseID != reader.ID() || e.Tag != "read" || e.Owner != "ann" || e.Waited <= 0 {
		t.Errorf("told %+v", all)
	}
}

// Several leases have events of their own, also those that are given back because
// a later one can't be had.
func TestEventsOfSeveral(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 3)
	h, option := p.heard()
	other := p.locker(p.coll, relations.Exclusive())
	l := p.locker(p.coll, relations.Exclusive(), option)
	held, err := other.TryAcquire(p.bounded(), doclock.ID(3), "write")
	if err != nil {
		t.Fatal(err)
	}
	wants := []multilock.Want{l.Want(doclock.ID(1), "write"), l.Want(doclock.ID(3), "write", doclock.MaxWait(500*time.Millisecond)), l.Want(doclock.ID(2), "write")}
	_, err = multilock.AcquireAll(p.bounded(), wants...)
	p.want(err, doclock.ErrConflict)
	all := h.want("granted 1", "granted 1", "waiting", "gave up", "released 1", "released 1")
	if e := all[3]; e.Holders[0].ID != held.ID() || e.Waited < 500*time.Millisecond || all[1].Waited >= e.Waited {
		t.Errorf("gave up: %+v", e)
	}
	p.release(held)
	if err := multilock.DoAll(p.bounded(), func(context.Context, multilock.Leases) error { return nil }, wants...); err != nil {
		t.Fatal(err)
	}
	h.want("granted 1", "granted 1", "granted 1", "released 1", "released 1", "released 1")
}

// Holders of one entry have events of their own with its id, and a join costs
// nothing.
func TestEventsOfASharedEntry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.sharing(p.coll, option)
	first, second := p.try(l, "read"), p.try(l, "read")
	p.release(first)
	p.release(second)
	for _, e := range h.want("granted 1", "granted 0", "released 0", "released 1") {
		if e.LeaseID != first.ID() {
			t.Errorf("%s of %v", e.Kind, e.LeaseID)
		}
	}
	first, second = p.try(l, "read"), p.try(l, "read")
	p.erase("read")
	p.want(first.Renew(p.bounded()), doclock.ErrLost)
	h.want("granted 1", "granted 0", "lost 1", "lost 1")
	_, _ = first.Release(p.bounded()), second.Release(p.bounded())
}

// Each command is counted where it is sent: repeats too, and those that make the
// document.
func TestEventsCountCommands(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	net, w := faultnet.New(), &watch{}
	coll := p.via(options.Client().SetDialer(net).SetMonitor(w.monitor("")).SetRetryWrites(false))
	h, option := p.heard()
	l := p.locker(coll, relations.Exclusive(), option, doclock.Upsert())
	counted := func(n int, name string, want ...string) {
		t.Helper()
		all := h.want(want...)
		if got := all[len(all)-1].Commands; got != n || w.count() != n {
			t.Errorf("%s: told %d, sent %v, want %d", name, got, w.commands(), n)
		}
		w.commands()
	}
	lease, err := l.TryAcquire(p.bounded(), bson.M{"_id": "new"}, "write")
	if err != nil {
		t.Fatal(err)
	}
	counted(3, "an upsert", "granted")
	net.Arm(faultnet.LoseReply, "findAndModify")
	if err := lease.Renew(p.bounded()); err != nil {
		t.Fatal(err)
	}
	h.want("renewal failed 1", "renewed 2")
	net.Arm(faultnet.LoseReply, "findAndModify")
	if err := lease.Release(p.bounded()); err != nil {
		t.Fatal(err)
	}
	counted(4, "a renewal and a release, each repeated", "released")
	net.Arm(faultnet.LoseReply, "findAndModify")
	lease = p.try(l, "write")
	counted(2, "an acquire that is repeated", "granted")
	p.release(lease)
	h.want("released 1")
}

// A lost entry is told, though its holder asks nobody, and so is one that an
// operator broke.
func TestEventsOfLosses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.locker(p.coll, relations.Exclusive(), option, short(500*time.Millisecond))
	lease := p.try(l, "write")
	all := h.want("granted 1", "lost 0")
	if e := all[1]; e.Held < 50*time.Millisecond || e.Held > patience || !errors.Is(e.Err, doclock.ErrLost) || e.LeaseID != lease.ID() {
		t.Errorf("lost: %+v", e)
	}
	if err := lease.Release(p.bounded()); err != nil { // nobody was let in
		t.Fatal(err)
	}
	long := p.locker(p.coll, relations.Exclusive(), option)
	lease = p.try(long, "write")
	inspected, err := admin.Inspect(p.bounded(), p.coll, flowers)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Break(p.bounded(), p.coll, inspected.Entries[0]); err != nil {
		t.Fatal(err)
	}
	p.want(lease.Release(p.bounded()), doclock.ErrLost)
	h.want("granted 1", "lost 1") // and nothing of the first one's release
}

// Leases that are given back, because the context ended before a caller got them,
// are released: no caller is told that an outcome is unknown.
func TestEventsOfLeasesThatAreGivenBack(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 2)
	h, option := p.heard()
	if _, err := p.locker(p.coll, relations.Exclusive()).TryAcquire(p.bounded(), doclock.ID(2), "write"); err != nil {
		t.Fatal(err)
	}
	l := p.locker(p.coll, relations.Exclusive(), option)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := multilock.AcquireAll(ctx, l.Want(doclock.ID(1), "write"), l.Want(doclock.ID(2), "write"))
	if p.want(err, context.DeadlineExceeded); errors.Is(err, doclock.ErrOutcomeUnknown) {
		t.Errorf("AcquireAll: %v", err)
	}
	h.want("granted 1", "waiting", "gave up", "released 1")
}
