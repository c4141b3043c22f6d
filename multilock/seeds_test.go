package multilock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// What the projects and questions behind this library do, or ask for.

// monglock's example of a multi-lock: "read" is cooperative with "write",
// "write" cooperative with itself and assertive to "read", each with a time of
// its own (locktimeouts).
func TestMonglockMultiLockExample(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	rules := relations.Rules{
		"read":  {"write": {Kind: relations.Cooperative}},
		"write": {"read": {Kind: relations.Assertive}, "write": {Kind: relations.Cooperative}},
	}
	l := p.locker(p.coll, rules, at.drive(), doclock.ClockTolerance(0),
		doclock.TagTTL("read", 2*time.Second), doclock.TagTTL("write", 3*time.Second))
	ctx := t.Context()

	// Many read at a time.
	first, second := p.try(l, "read"), p.try(l, "read")
	for _, e := range p.entries("read") {
		if e.Expires.Sub(at.now()) != 2*time.Second {
			t.Errorf("a reader is kept for %v", e.Expires.Sub(at.now()))
		}
	}

	// AssertiveLock: the writer waits for them, and keeps new readers out.
	writer := p.enqueue(l, "write")
	if writer.Granted() {
		t.Fatal("a writer beside readers")
	}
	if e := p.entries("write")[0]; e.held() || e.Expires.Sub(at.now()) != 3*time.Second {
		t.Errorf("the waiting writer is %+v", e)
	}
	_, err := writer.Confirm(ctx)
	p.conflict(err)
	_, err = l.Enqueue(ctx, flowers, "read") // CooperativeLock
	if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != writer.ID() {
		t.Errorf("in the reader's way: %+v", c.Holders)
	}
	_, err = l.Enqueue(ctx, flowers, "write") // CooperativeLock
	p.conflict(err)

	// Released, the readers let it in: it acquires again, under the same id.
	p.release(first)
	_, err = writer.Confirm(ctx)
	p.conflict(err)
	p.release(second)
	lease, err := writer.Confirm(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if lease.ID() != writer.ID() {
		t.Errorf("the lease's id is %v, the ticket's %v", lease.ID(), writer.ID())
	}

	// CooperativeLock, both.
	for tag := range rules {
		_, err := l.TryAcquire(ctx, flowers, tag)
		if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != lease.ID() {
			t.Errorf("in the way of %q: %+v", tag, c.Holders)
		}
	}
	p.release(lease)
	p.release(p.try(l, "write"))
	p.wantEntries()

	// RessourceNotFound.
	for tag := range rules {
		_, err := l.TryAcquire(ctx, bson.M{"_id": 2}, tag)
		p.want(err, doclock.ErrNotFound)
	}
}

func TestMonglockMultiLockWasReacquired(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.WritePreferring(), at.drive(), doclock.TTL(time.Second), doclock.ClockTolerance(0))
	reader := p.try(l, "read")
	at.pass(time.Second)
	writer := p.try(l, "write")
	p.want(reader.Release(t.Context()), doclock.ErrLost)
	p.want(reader.Update(t.Context(), bson.M{"$set": bson.M{"total": 2}}), doclock.ErrReleased)
	p.wantEntries(writer)

	// A waiting writer, whose turn comes after the others' release.
	p.release(writer)
	p.try(l, "read")
	ticket := p.enqueue(l, "write")
	at.pass(time.Second)
	reader = p.try(l, "read")
	_, err := ticket.Confirm(t.Context())
	p.want(err, doclock.ErrLost)
	p.wantEntries(reader)
}

func TestMonglockMultiLockNotFound(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.WritePreferring())
	lease := p.try(l, "read")
	p.erase("read")
	p.want(lease.Release(t.Context()), doclock.ErrLost)
	lease = p.try(l, "read")
	p.remove()
	p.want(lease.Release(t.Context()), doclock.ErrLost)
}

// monglock's query for live entries matches an array with any dead entry. So one
// live reader beside one expired reader was overlooked, and a writer was let in.
func TestMonglockFaultOneExpiredAndOneLiveReaderStillKeepTheWriterOut(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"the first has expired", "the second has expired"} {
		p, at := newPlace(t), newClock()
		long := p.locker(p.coll, relations.WritePreferring(), at.drive(), doclock.TTL(10*time.Second), doclock.ClockTolerance(0))
		short := p.locker(p.coll, relations.WritePreferring(), at.drive(), doclock.TTL(time.Second), doclock.ClockTolerance(0))
		var live *doclock.Lease
		if order == "the first has expired" {
			p.try(short, "read")
			live = p.try(long, "read")
		} else {
			live = p.try(long, "read")
			p.try(short, "read")
		}
		at.pass(5 * time.Second)
		if n := len(p.entries("read")); n != 2 {
			t.Fatalf("%d readers in the document", n)
		}
		_, err := long.TryAcquire(t.Context(), flowers, "write")
		if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != live.ID() {
			t.Errorf("%s: in the writer's way: %+v", order, c.Holders)
		}
		if ticket := p.enqueue(long, "write"); ticket.Granted() {
			t.Errorf("%s: the writer was let in", order)
		}
	}
}

// The question asks for a readers-writer mutex inside documents: every read lock
// has an id and an expiry of its own.
func TestReaderWriterMutexQuestionEachReadLockIsItsOwn(t *testing.T) {
	t.Parallel()
	p, at := newPlace(t), newClock()
	l := p.locker(p.coll, relations.ReadPreferring(), at.drive(), doclock.TTL(3*time.Second), doclock.ClockTolerance(0))
	first, twin := p.try(l, "read"), p.try(l, "read") // in the same millisecond
	at.pass(time.Second)
	late := p.try(l, "read")

	readers := p.entries("read")
	if len(readers) != 3 || !readers[0].Expires.Equal(readers[1].Expires) || readers[2].Expires.Sub(readers[0].Expires) != time.Second {
		t.Fatalf("the readers are %+v", readers)
	}
	p.release(twin)
	p.wantEntries(first, late)
	p.want(twin.Release(t.Context())) // the same answer
	p.wantEntries(first, late)

	if err := late.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := p.entries("read"); !now[0].Expires.Equal(readers[0].Expires) {
		t.Errorf("renewing one moved another one's expiry from %v to %v", readers[0].Expires, now[0].Expires)
	}
	at.pass(2 * time.Second) // the first expires, alone
	_, err := l.TryAcquire(t.Context(), flowers, "write")
	if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != late.ID() {
		t.Errorf("in the writer's way: %+v", c.Holders)
	}
	p.release(late)
	writer := p.try(l, "write")
	p.wantEntries(writer)
	_, err = l.TryAcquire(t.Context(), flowers, "read")
	p.conflict(err)
}

// Dirty reads stay possible: a lock blocks neither a plain read nor a plain
// write.
func TestReaderWriterMutexQuestionPlainReadsAreUntouched(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.WritePreferring())
	for _, tag := range []string{"read", "write"} {
		lease := p.try(l, tag)
		if name := p.raw().Lookup("name").StringValue(); name != "flowers" {
			t.Errorf("under %q, name is %q", tag, name)
		}
		if n, err := p.coll.CountDocuments(context.Background(), byName); n != 1 || err != nil {
			t.Errorf("under %q, %d documents match (%v)", tag, n, err)
		}
		p.change(bson.M{"$inc": bson.M{"total": 1}})
		p.release(lease)
	}
	if total := p.raw().Lookup("total").AsInt64(); total != 3 {
		t.Errorf("total is %d", total)
	}
	// An unlocked document keeps the fence of its last lock.
	elements, err := p.raw().Lookup("lock").Document().Elements()
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, e := range elements {
		keys = append(keys, e.Key())
	}
	if slices.Sort(keys); !slices.Equal(keys, []string{"fence", "tags"}) {
		t.Errorf("the lock field has %v", keys)
	}
}
