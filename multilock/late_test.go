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

// Attempts that the server executes late: when the acquire that they belong to
// has ended. No entry here expires while a test runs.

// late are a holder in the way, elsewhere, and a Locker whose first attempt the
// network keeps back.
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

// An acquire was refused, or gave up, while an earlier attempt was out.
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
				l.eventually("what came late is removed", func() bool { return len(l.entries()) == 0 })
			})
		}
	}
}

// An acquire that was granted by its second attempt, and released.
func TestALateAttemptOfAReleasedLeaseLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for name, give := range givings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLate(t, relations.Exclusive())
			held := l.net.Arm(faultnet.Hold, "findAndModify")
			if err := give.give(l.try(l.here, "write")); err != nil {
				t.Fatal(err)
			}
			l.wantEntries()
			if err := held.Let(); err != nil {
				t.Fatal(err)
			}
			l.eventually("what came late is removed", func() bool { return len(l.entries()) == 0 })
		})
	}
}

// A waiting entry that was abandoned.
func TestALateAttemptOfAnAbandonedTicketLeavesNoEntry(t *testing.T) {
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
	l.eventually("what came late is removed", func() bool { return len(l.entries()) == 1 })
	l.wantEntries(other)
}

// A waiting entry that was pruned.
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
	l.eventually("what came late is removed", func() bool { return len(l.entries()) == 1 })
	l.wantEntries(other)
}

// A reader whose first attempt is out shares another's entry meanwhile.
func TestALateAttemptOfWhoSharesAnothersEntryLeavesNone(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.WritePreferring(), doclock.ShareInProcess("read"))
	l.try(l.here, "write") // so that who waits for it does not poll
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
	l.eventually("what came late is removed", func() bool { return len(l.entries()) == 0 })
}

// A handoff whose reply was lost has entered its successor, a reader. Before
// that one asks, another of its process has an entry that could be shared.
func TestRule15ASuccessorOfUnknownOutcomeLeavesNoEntryBesideTheSharedOne(t *testing.T) {
	t.Parallel()
	l := newLate(t, relations.WritePreferring(), doclock.ShareInProcess("read"))
	w := l.try(l.here, "write")
	waits := acquire(t, l.bounded(), l.here, "read")
	l.standing(l.here, 1)
	lost := l.net.Arm(faultnet.LoseReply, "findAndModify") // the handoff's
	slow := l.net.Arm(faultnet.DelayReply, "findAndModify")
	given := begin(t, func() (struct{}, error) { return struct{}{}, w.Release(context.Background()) })
	wait(t, lost.Fired())
	wait(t, slow.Fired())
	if n := len(l.entries("read")); n != 1 {
		t.Fatalf("%d readers: it was not handed over", n)
	}
	other := l.try(l.here, "read")
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	if _, err := given.wait(); err != nil {
		t.Errorf("the giver's verdict: %v", err)
	}
	lease := l.granted(waits)
	if lease.ID() == other.ID() {
		t.Error("it has an entry of its own, and joined another's")
	}
	l.release(lease)
	l.release(other)
	l.wantEntries()
}

// What nobody executes any more costs few commands, and they end.
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
	abandon := func(ticket *multilock.Ticket) {
		calls = append(calls, begin(t, func() (struct{}, error) { return struct{}{}, ticket.Cancel(l.bounded()) }))
	}
	abandon(tickets[0])
	wait(t, slow.Fired())
	l.watch.commands()
	for _, ticket := range tickets[1:] {
		abandon(ticket)
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
		t.Error("nobody was told")
	}
	l.erase("write")
}
