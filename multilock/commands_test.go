package multilock_test

import (
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestOneCommandForEveryAnsweredAcquire(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.WritePreferring())
	var lease doclock.Lease
	try := func(filter any, tag string) func() error {
		return func() (err error) {
			lease, err = l.TryAcquire(p.bounded(), filter, tag)
			return err
		}
	}
	p.sends(w, 1, "TryAcquire, granted", try(flowers, "write"))
	p.sends(w, 1, "TryAcquire, refused by a holder", try(flowers, "write"), doclock.ErrConflict)
	p.sends(w, 1, "TryAcquire, not found", try(bson.M{"_id": 2}, "write"), doclock.ErrNotFound)
	p.erase("write")
	p.sends(w, 1, "TryAcquire by another field", try(byName, "read"))
	reader := lease
	p.sends(w, 1, "TryAcquire, refused by whom it would wait for", try(flowers, "write"), doclock.ErrConflict)
	p.sends(w, 1, "Acquire, one try", func() error { return errOf(l.Acquire(p.bounded(), flowers, "write", doclock.MaxWait(0))) }, doclock.ErrConflict)
	p.sends(w, 1, "Renew", func() error { return reader.Renew(t.Context()) })

	var ticket interface{ Granted() bool }
	enqueue := func(filter any, tag string) func() error {
		return func() error {
			t, err := l.Enqueue(p.bounded(), filter, tag)
			ticket = t
			return err
		}
	}
	p.sends(w, 1, "Enqueue, granted", enqueue(flowers, "read"))
	p.sends(w, 1, "Enqueue, waiting", enqueue(flowers, "write"))
	if ticket.Granted() {
		t.Error("granted")
	}
	p.sends(w, 1, "Enqueue, refused", enqueue(flowers, "read"), doclock.ErrConflict)
	p.sends(w, 1, "Enqueue, not found", enqueue(bson.M{"_id": 2}, "write"), doclock.ErrNotFound)
	p.sends(w, 1, "Release", func() error { return reader.Release(p.bounded()) })
	p.sends(w, 0, "Release again", func() error { return reader.Release(p.bounded()) })

	p.Change(bson.M{"$set": bson.M{"lock": "another program's"}})
	p.sends(w, 1, "TryAcquire, foreign", try(flowers, "write"), doclock.ErrForeignLock)
	p.sends(w, 1, "Acquire, foreign", func() error { _, err := l.Acquire(p.bounded(), flowers, "write"); return err }, doclock.ErrForeignLock)
	p.Change(bson.M{"$unset": bson.M{"lock": 1}})
	p.sends(w, 1, "Acquire, uncontended", func() (err error) { lease, err = l.Acquire(p.bounded(), flowers, "write"); return err })
	p.sends(w, 1, "Acquire, not found", func() error { _, err := l.Acquire(p.bounded(), bson.M{"_id": 2}, "write"); return err }, doclock.ErrNotFound)
	p.erase("write")
	p.sends(w, 1, "Release, lost", func() error { return lease.Release(p.bounded()) }, doclock.ErrLost)
	p.sends(w, 0, "Release, lost, again", func() error { return lease.Release(p.bounded()) }, doclock.ErrLost)
}

func TestOneCommandForEveryConfirm(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair())
	reader := p.try(l, "read")
	ticket, lost, cancelled := p.enqueue(l, "write"), p.enqueue(l, "write"), p.enqueue(l, "write")
	p.sends(w, 1, "Confirm, waiting", func() error { _, err := ticket.Confirm(p.bounded()); return err }, doclock.ErrConflict)
	p.sends(w, 1, "Cancel", func() error { return cancelled.Cancel(p.bounded()) })
	p.sends(w, 0, "Cancel again", func() error { return cancelled.Cancel(p.bounded()) })
	p.sends(w, 0, "Confirm, cancelled", func() error { _, err := cancelled.Confirm(p.bounded()); return err }, doclock.ErrReleased)
	p.sends(w, 0, "Wait, cancelled", func() error { _, err := cancelled.Wait(p.bounded()); return err }, doclock.ErrReleased)
	p.release(reader)
	p.sends(w, 1, "Confirm, granted", func() error { _, err := ticket.Confirm(p.bounded()); return err })
	p.sends(w, 0, "Confirm again", func() error { _, err := ticket.Confirm(p.bounded()); return err })
	p.sends(w, 0, "Wait, granted", func() error { _, err := ticket.Wait(p.bounded()); return err })
	p.sends(w, 0, "Cancel, granted", func() error { return ticket.Cancel(p.bounded()) })
	p.erase("write")
	p.sends(w, 1, "Confirm, lost", func() error { _, err := lost.Confirm(p.bounded()); return err }, doclock.ErrLost)
	p.sends(w, 0, "Confirm, lost, again", func() error { _, err := lost.Confirm(p.bounded()); return err }, doclock.ErrLost)
	p.sends(w, 0, "Cancel, lost", func() error { return lost.Cancel(p.bounded()) })
}
