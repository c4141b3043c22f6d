package multilock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// In these tests the server executes an attempt after its acquire has ended. No
// entry expires while a test runs.

// late has two Lockers for one document. The network delays the first attempt
// of one of them.
type late struct {
	*place
	here, there *multilock.Locker
	net         *faultnet.Net
	watch       *watch
}

func newLate(t *testing.T, rules relations.Rules, opts ...doclock.Option) *late {
	t.Helper()
	l := &late{place: newPlace(t), net: faultnet.New(), watch: &watch{}}
	monitor := l.watch.monitor(l.coll.Database().Name())
	coll := l.via(options.Client().SetDialer(l.net).SetRetryWrites(false).SetMonitor(monitor))
	l.here = l.locker(coll, rules, append([]doclock.Option{doclock.TTL(time.Hour)}, opts...)...)
	l.there = l.locker(l.coll, rules, doclock.TTL(time.Hour))
	return l
}

// An acquire was refused, or given up, while an earlier attempt was under way.
func TestALateAttemptOfARefusedAcquireLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for name, ask := range acquires {
		for _, atClose := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := newLate(t, relations.Exclusive())
				other := l.try(l.there, "write")
				held := l.net.Arm(faultnet.Hold, "findAndModify")
				ctx, cancel := context.WithCancel(t.Context())
				call := begin(t, func() (struct{}, error) { return struct{}{}, ask(l.place, ctx, l.here, "write") })
				l.eventually("the second attempt is refused", func() bool { return l.watch.count() >= 2 })
				if name == "Acquire" || name == "Do" { // which wait
					l.eventually("it waits", func() bool { return l.here.Waiters(1) == 1 })
					cancel()
				}
				_, err := call.wait()
				l.want(err, doclock.ErrConflict)
				cancel()
				l.release(other)
				if err := held.Let(); err != nil {
					t.Fatal(err)
				}
				if atClose {
					l.rest(l.here)
					l.wantEntries()
				}
				l.eventually("the late entry is removed", func() bool { return len(l.entries()) == 0 })
			})
		}
	}
}

// An acquire was granted by its second attempt, and released.
func TestALateAttemptOfAReleasedLeaseLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for name, handoff := range handoffs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLate(t, relations.Exclusive())
			held := l.net.Arm(faultnet.Hold, "findAndModify")
			if err := handoff.release(l.try(l.here, "write")); err != nil {
				t.Fatal(err)
			}
			l.wantEntries()
			if err := held.Let(); err != nil {
				t.Fatal(err)
			}
			l.eventually("the late entry is removed", func() bool { return len(l.entries()) == 0 })
		})
	}
}

// A waiting entry was cancelled.
func TestALateAttemptOfACancelledTicketLeavesNoEntry(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.Fair())
	other := l.try(l.there, "read")
	held := l.net.Arm(faultnet.Hold, "findAndModify")
	ticket := l.enqueue(l.here, "write")
	if err := ticket.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantEntries(other)
	if err := held.Let(); err != nil {
		t.Fatal(err)
	}
	l.eventually("the late entry is removed", func() bool { return len(l.entries()) == 1 })
	l.wantEntries(other)
}

// A waiting entry was pruned.
func TestALateAttemptOfALostTicketLeavesNoEntry(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.Fair())
	other := l.try(l.there, "read")
	held := l.net.Arm(faultnet.Hold, "findAndModify")
	ticket := l.enqueue(l.here, "write")
	l.erase("write")
	_, err := ticket.Confirm(l.bounded())
	l.want(err, doclock.ErrLost)
	if err := held.Let(); err != nil {
		t.Fatal(err)
	}
	l.eventually("the late entry is removed", func() bool { return len(l.entries()) == 1 })
	l.wantEntries(other)
}

// A reader joins another holder's entry while its first attempt is under way.
func TestALateAttemptOfAHolderThatJoinedLeavesNoEntry(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.WritePreferring(), doclock.ShareInProcess("read"))
	l.try(l.here, "write") // so that a waiter for it does not poll
	held := l.net.Arm(faultnet.Hold, "findAndModify")
	waits := acquire(t, l.bounded(), l.here, "read")
	l.eventually("it is refused, and waits", func() bool { return l.watch.count() >= 3 && l.here.Waiters(1) == 1 })
	l.erase("write")
	first := l.try(l.here, "read")
	second := l.granted(waits)
	if first.ID() != second.ID() {
		t.Fatal("it has an entry of its own")
	}
	l.release(first)
	l.release(second)
	if err := held.Let(); err != nil {
		t.Fatal(err)
	}
	l.eventually("the late entry is removed", func() bool { return len(l.entries()) == 0 })
}

// A handoff whose reply was lost has entered its successor, a reader. Before the
// successor asks, another reader of its process has an entry that can be shared.
func TestRule15ASuccessorOfUnknownOutcomeLeavesNoEntryBesideTheSharedOne(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.WritePreferring(), doclock.ShareInProcess("read"))
	w := l.try(l.here, "write")
	waits := acquire(t, l.bounded(), l.here, "read")
	l.queued(l.here, 1)
	lost := l.net.Arm(faultnet.LoseReply, "findAndModify") // the handoff's
	slow := l.net.Arm(faultnet.DelayReply, "findAndModify")
	released := begin(t, func() (struct{}, error) { return struct{}{}, w.Release(context.Background()) })
	wait(t, lost.Fired())
	wait(t, slow.Fired())
	if n := len(l.entries("read")); n != 1 {
		t.Fatalf("%d readers: it was not handed over", n)
	}
	other := l.try(l.here, "read")
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	if _, err := released.wait(); err != nil {
		t.Errorf("the holder's verdict: %v", err)
	}
	lease := l.granted(waits)
	if lease.ID() == other.ID() {
		t.Error("it has an entry of its own, and joined another's")
	}
	l.release(lease)
	l.release(other)
	l.wantEntries()
}

// An attempt that no server will execute costs few clean-up commands, and they
// end.
func TestTheCleanUpAfterALostAttemptEnds(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.Exclusive(), doclock.TTL(time.Second), doclock.ClockTolerance(0))
	other := l.try(l.there, "write")
	l.net.Arm(faultnet.LoseRequest, "findAndModify")
	_, err := l.here.TryAcquire(l.bounded(), flowers, "write")
	l.want(err, doclock.ErrConflict)
	l.eventually("the id is forgotten", func() bool { return l.here.Leftovers() == 0 })
	const acquires, cleanUps = 2, 6 // at 0, 50, 150, 350, 750 ms, and at the end
	if n := l.watch.count(); n > acquires+cleanUps {
		t.Errorf("%d commands", n)
	}
	l.release(other)
}

// An entry that was found is not looked for again.
func TestTheCleanUpEndsWithTheEntry(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.Exclusive())
	lost := l.net.Arm(faultnet.LoseReply, "findAndModify")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-lost.Fired()
		cancel()
	}()
	_, err := l.here.TryAcquire(ctx, flowers, "write")
	l.want(err, context.Canceled, doclock.ErrNotAcquired)
	l.eventually("the entry is removed, and its id forgotten", func() bool { return len(l.entries()) == 0 && l.here.Leftovers() == 0 })
	if n := l.watch.count(); n > 2 {
		t.Errorf("%d commands", n)
	}
}

// The ids of one document and tag are removed together, and a clean-up that the
// server refuses is reported.
func TestCleanUpIsOneCommandForManyAndItsFailureIsReported(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.Fair())
	other := l.try(l.there, "read")
	failed := make(chan error, 10)
	l.here.OnFailedCleanUp(func(err error) { failed <- err })
	pulls := func(name string, body bson.Raw) bool {
		_, err := body.LookupErr("update", "$pull")
		return name == "findAndModify" && err == nil
	}
	slow := l.net.ArmWhere(faultnet.DelayReply, pulls) // the first one's; the others gather
	var tickets []*multilock.Ticket
	for range 20 {
		tickets = append(tickets, l.enqueue(l.here, "write"))
	}
	var calls []*pending[struct{}]
	cancel := func(ticket *multilock.Ticket) {
		calls = append(calls, begin(t, func() (struct{}, error) { return struct{}{}, ticket.Cancel(l.bounded()) }))
	}
	cancel(tickets[0])
	wait(t, slow.Fired())
	l.watch.commands()
	for _, ticket := range tickets[1:] {
		cancel(ticket)
	}
	l.eventually("they are all left to the clean-up", func() bool { return l.here.Leftovers() == len(tickets) })
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		if _, err := call.wait(); err != nil {
			t.Error(err)
		}
	}
	if n := l.watch.count(); n != 1 {
		t.Errorf("%d commands removed the rest", n)
	}
	l.wantEntries(other)

	ticket := l.enqueue(l.here, "write")
	l.net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
		return bson.M{"ok": 0, "code": 13, "codeName": "Unauthorized", "errmsg": "not allowed"}
	})
	if err := ticket.Cancel(l.bounded()); err == nil || errors.Is(err, doclock.ErrOutcomeUnknown) {
		t.Errorf("Cancel = %v", err)
	}
	select {
	case <-failed:
	case <-time.After(patience):
		t.Error("the failure was not reported")
	}
	l.erase("write")
}
