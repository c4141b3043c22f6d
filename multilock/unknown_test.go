package multilock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// cuts are the faults after which a command's outcome is unknown.
var cuts = []faultnet.Kind{faultnet.LoseRequest, faultnet.LoseReply, faultnet.Stall}

// An acquire that pins its document is repeated by its id. It is granted, and
// there is one entry, whether or not the first attempt was executed.
func TestUnknownOutcomeOfPinnedAcquireIsRepeated(t *testing.T) {
	t.Parallel()
	for _, cut := range cuts {
		t.Run(cut.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, net := p.faulty()
			l := p.locker(coll, relations.Fair(), doclock.AttemptTimeout(time.Second))

			fault := net.Arm(cut, "findAndModify")
			lease, err := l.TryAcquire(p.bounded(), flowers, "read")
			wait(t, fault.Fired())
			if err != nil {
				t.Fatalf("TryAcquire: %v", err)
			}
			p.wantEntries(lease)
			if e := p.entries("read")[0]; e.Fence != lease.Fence() {
				t.Errorf("the fencing token is %d in the document, %d in the lease", e.Fence, lease.Fence())
			}

			// A waiting entry, whose acquire and confirm are cut off.
			fault = net.Arm(cut, "findAndModify")
			ticket := p.enqueue(l, "write")
			wait(t, fault.Fired())
			if n := len(p.entries()); n != 2 || ticket.Granted() {
				t.Fatalf("%d entries, granted: %v", n, ticket.Granted())
			}
			p.release(lease)
			fault = net.Arm(cut, "findAndModify")
			lease, err = ticket.Confirm(p.bounded())
			wait(t, fault.Fired())
			if err != nil {
				t.Fatalf("Confirm: %v", err)
			}
			p.wantEntries(lease)
			p.release(lease)
		})
	}
}

// A filter that may find another document the next time is sent once. The outcome
// stays unknown, and the entry of the command is released.
func TestUnknownOutcomeOfUnpinnedAcquireIsReported(t *testing.T) {
	t.Parallel()
	for _, cut := range cuts {
		t.Run(cut.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, net := p.faulty()
			holder := p.try(p.locker(p.coll, relations.Fair()), "read")
			for _, tag := range []string{"read", "write"} { // granted, or waiting
				l := p.locker(coll, relations.Fair(), doclock.AttemptTimeout(time.Second))
				fault := net.Arm(cut, "findAndModify")
				lease, err := l.Acquire(p.bounded(), byName, tag)
				wait(t, fault.Fired())
				p.want(err, doclock.ErrNotAcquired)
				if lease != nil {
					t.Error("there is a lease")
				}
				if cause := driverError(err); cause == nil {
					t.Errorf("the driver's error is not in %v", err)
				}
				p.rest(l)
				p.wantEntries(holder)
			}
		})
	}
}

// An Acquire by another field is also repeated, once it has met its document.
func TestUnknownOutcomeOfAPollIsRepeated(t *testing.T) {
	t.Parallel()
	for _, cut := range cuts {
		t.Run(cut.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, net := p.faulty()
			holder := p.try(p.locker(p.coll, relations.Exclusive()), "write")
			l := p.locker(coll, relations.Exclusive(), doclock.AttemptTimeout(time.Second))
			polls := 0
			fault := net.ArmWhere(cut, func(name string, _ bson.Raw) bool {
				if name == "findAndModify" { // not the driver's own commands
					polls++
				}
				return polls == 3
			})
			call := begin(t, func() (*doclock.Lease, error) { return l.Acquire(p.bounded(), byName, "write") })
			wait(t, fault.Fired())
			p.release(holder)
			lease, err := call.wait()
			if err != nil {
				t.Fatal(err)
			}
			p.wantEntries(lease)
		})
	}
}

// Rule 22: an acquire that is executed after its caller gave up leaves an entry
// without a holder, for at most TTL + tolerance. It delays others, and is never a
// second holder.
func TestRule22ALateAcquireDelaysOthersAndIsNoHolder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	const ttl, tolerance = 300 * time.Millisecond, 100 * time.Millisecond
	ann := p.locker(coll, relations.Exclusive(), short(ttl), doclock.ClockTolerance(tolerance))
	bob := p.locker(p.coll, relations.Exclusive())

	held := net.Arm(faultnet.Hold, "findAndModify")
	ctx, cancel := context.WithCancel(t.Context())
	call := acquire(t, ctx, ann, "write")
	wait(t, held.Fired())
	cancel()
	lease, err := call.wait()
	p.want(err, context.Canceled, doclock.ErrNotAcquired)
	if lease != nil {
		t.Fatal("there is a lease")
	}
	p.rest(ann) // the clean-up found nothing
	p.wantEntries()

	if err := held.Let(); err != nil {
		t.Fatal(err)
	}
	late := p.entries("write")
	if len(late) != 1 || late[0].Expires.Sub(late[0].Since) != ttl+tolerance {
		t.Fatalf("the late acquire left %+v", late)
	}
	successor, err := bob.Acquire(p.bounded(), flowers, "write")
	if err != nil {
		t.Fatal(err)
	}
	p.wantEntries(successor)
	if e := p.entries("write")[0]; e.Since.Before(late[0].Expires) {
		t.Errorf("let in %v before the late entry expired", late[0].Expires.Sub(e.Since))
	}
}

// If another client holds the lock, the late acquire is refused as any other.
func TestRule22LateAcquireIsRefusedWhereAnotherHolds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	ann := p.locker(coll, relations.Exclusive())
	held := net.Arm(faultnet.Hold, "findAndModify")
	_, err := ann.TryAcquire(t.Context(), byName, "write")
	p.want(err, doclock.ErrNotAcquired)
	p.rest(ann)
	holder := p.try(p.locker(p.coll, relations.Exclusive()), "write")
	before := p.raw()
	if err := held.Let(); err != nil {
		t.Fatal(err)
	}
	p.wantEntries(holder)
	if after := p.raw(); !slices.Equal(before, after) {
		t.Errorf("the document was %v, and is %v", before, after)
	}
	p.release(holder)
}

// The late command is the first attempt of an acquire that was repeated. It finds
// the acquire's entry, and there is still one.
func TestLateFirstAttemptFindsTheEntryOfTheSecond(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Fair())
	held := net.Arm(faultnet.Hold, "findAndModify")
	lease := p.try(l, "write")
	before := p.entries("write")[0]
	if err := held.Let(); err != nil {
		t.Fatal(err)
	}
	p.wantEntries(lease)
	if after := p.entries("write")[0]; after.Fence != before.Fence || after.Seq != before.Seq || after.Expires.Before(before.Expires) {
		t.Errorf("the entry was %+v and is %+v", before, after)
	}
	p.release(lease)
	p.wantEntries()
}
