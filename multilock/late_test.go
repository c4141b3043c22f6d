package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
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
	watch       *fixture.Commands
	heard       *heard // by here's observer
}

func lately(t *testing.T, rules relations.Rules, test func(l *late), opts ...doclock.Option) {
	t.Helper()
	inBubble(t, func(p *place) {
		heard, hear := p.heard()
		l := &late{place: p, net: faultnet.New(), watch: &fixture.Commands{}, heard: heard}
		coll := p.Through(options.Client().SetDialer(l.net).SetRetryWrites(false).SetMonitor(l.watch.Monitor()))
		l.here = p.locker(coll, rules, append([]doclock.Option{doclock.TTL(time.Hour), hear}, opts...)...)
		l.there = p.locker(p.coll, rules, doclock.TTL(time.Hour))
		test(l)
	})
}

// removed waits until the late entry is gone, and only these leases' are left.
func (l *late) removed(leases ...doclock.Lease) {
	l.Helper()
	l.eventually("the late entry is removed", func() bool { return len(l.entries()) == len(leases) })
	l.wantEntries(leases...)
}

// An attempt that is executed near the end of its entry's life is removed, too: it is owed until then.
func TestAnAttemptAtTheEndOfItsLifeIsRemoved(t *testing.T) {
	t.Parallel()
	lately(t, relations.Exclusive(), func(l *late) {
		other := l.try(l.there, "write")
		held := l.net.Arm(faultnet.Hold, "findAndModify")
		l.want(errOf(l.here.TryAcquire(l.Context(), flowers, "write")), doclock.ErrConflict)
		l.release(other)
		time.Sleep(50 * time.Minute) // of an hour
		must(l, held.Let())
		time.Sleep(15 * time.Minute)
		l.wantEntries()
	})
}

// An acquire was refused, or given up, while an earlier attempt was under way.
func TestALateAttemptOfARefusedAcquireLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for name, ask := range asks {
		for _, atClose := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				lately(t, relations.Exclusive(), func(l *late) {
					other := l.try(l.there, "write")
					held := l.net.Arm(faultnet.Hold, "findAndModify")
					ctx, cancel := context.WithCancel(l.Context())
					call := begin(l, func() (struct{}, error) { return struct{}{}, errOf(ask(l.here, ctx, flowers, "write")) })
					l.eventually("the second attempt is refused", func() bool { return l.watch.Count() >= 2 })
					if name == "Acquire" || name == "Do" { // which wait
						l.queued(l.here, 1)
						cancel()
					}
					l.want(errOf(call.wait()), doclock.ErrConflict)
					cancel()
					l.release(other)
					must(l, held.Let())
					if atClose {
						l.rest(l.here)
						l.wantEntries()
					}
					l.removed()
				})
			})
		}
	}
}

// An acquire was granted by its second attempt, and released. Or its waiting entry was
// cancelled, or pruned.
func TestALateAttemptLeavesNoEntry(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*late){
		"cancelled": func(l *late) { must(l, l.enqueue(l.here, "write").Cancel(l.Context())) },
		"lost": func(l *late) {
			ticket := l.enqueue(l.here, "write")
			l.erase("write")
			l.want(errOf(ticket.Confirm(l.bounded())), doclock.ErrLost)
		},
	}
	for name, handoff := range handoffs {
		ends[name] = func(l *late) { must(l, handoff.release(l.try(l.here, "write"))) }
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			lately(t, relations.Fair(), func(l *late) {
				var others []doclock.Lease
				if _, released := handoffs[name]; !released {
					others = append(others, l.try(l.there, "read"))
				}
				held := l.net.Arm(faultnet.Hold, "findAndModify")
				end(l)
				l.wantEntries(others...)
				must(l, held.Let())
				l.removed(others...)
			})
		})
	}
}

// A reader joins another holder's entry while its first attempt is under way.
func TestALateAttemptOfAHolderThatJoinedLeavesNoEntry(t *testing.T) {
	t.Parallel()
	lately(t, relations.WritePreferring(), func(l *late) {
		l.try(l.here, "write") // so that a waiter for it does not poll
		held := l.net.Arm(faultnet.Hold, "findAndModify")
		waits := acquire(l, l.bounded(), l.here, "read")
		l.eventually("it is refused, and waits", func() bool { return l.watch.Count() >= 3 && l.here.Waiters(1) == 1 })
		l.erase("write")
		first := l.try(l.here, "read")
		second := l.granted(waits)
		if first.ID() != second.ID() {
			l.Fatal("it has an entry of its own")
		}
		l.release(first)
		l.release(second)
		must(l, held.Let())
		l.removed()
	}, doclock.ShareInProcess("read"))
}

// A handoff whose reply was lost has entered its successor, a reader. Before the
// successor asks, another reader of its process has an entry that can be shared.
func TestRule15ASuccessorOfUnknownOutcomeLeavesNoEntryBesideTheSharedOne(t *testing.T) {
	t.Parallel()
	lately(t, relations.WritePreferring(), func(l *late) {
		w := l.try(l.here, "write")
		waits := acquire(l, l.bounded(), l.here, "read")
		l.queued(l.here, 1)
		l.net.Arm(faultnet.LoseReply, "findAndModify") // the handoff's
		slow := l.net.Arm(faultnet.DelayReply, "findAndModify")
		released := begin(l, func() (struct{}, error) { return struct{}{}, w.Release(context.Background()) })
		wait(l, slow.Fired())
		if n := len(l.entries("read")); n != 1 {
			l.Fatalf("%d readers: it was not handed over", n)
		}
		other := l.try(l.here, "read")
		must(l, slow.Let())
		ok(l, errOf(released.wait()))
		lease := l.granted(waits)
		if lease.ID() == other.ID() {
			l.Error("it has an entry of its own, and joined another's")
		}
		l.release(lease)
		l.release(other)
		l.wantEntries()
	}, doclock.ShareInProcess("read"))
}

// An attempt that no server will execute costs few clean-up commands, and they
// end.
func TestTheCleanUpAfterALostAttemptEnds(t *testing.T) {
	t.Parallel()
	lately(t, relations.Exclusive(), func(l *late) {
		l.try(l.there, "write")
		l.net.Arm(faultnet.LoseRequest, "findAndModify")
		l.want(errOf(l.here.TryAcquire(l.bounded(), flowers, "write", doclock.TTL(3*time.Second))), doclock.ErrConflict)
		l.eventually("the id is forgotten", func() bool { return l.here.Leftovers() == 0 })
		const acquires, cleanUps = 2, 8 // at 0, 50, 150, 350, 750, 1550, 3150 ms, and at the end
		if n := l.watch.Count(); n > acquires+cleanUps {
			l.Errorf("%d commands", n)
		}
	}, doclock.TTL(time.Second), waitTTL(time.Second), doclock.ClockTolerance(0))
}

// An entry that was found is not looked for again.
func TestTheCleanUpEndsWithTheEntry(t *testing.T) {
	t.Parallel()
	lately(t, relations.Exclusive(), func(l *late) {
		l.mem.LoseReplies(1, locktest.Acquires)
		ctx := l.within(time.Millisecond)
		l.want(errOf(l.here.TryAcquire(ctx, flowers, "write")), context.DeadlineExceeded, doclock.ErrNotAcquired)
		time.Sleep(time.Second)
		l.wantEntries()
		if n := l.watch.Count(); n > 2 || l.here.Leftovers() != 0 {
			l.Errorf("%d commands; %d ids are owed", n, l.here.Leftovers())
		}
	})
}

// The ids of one document and tag are removed together, and a clean-up that the
// server refuses is reported.
func TestCleanUpIsOneCommandForManyAndItsFailureIsReported(t *testing.T) {
	t.Parallel()
	lately(t, relations.Fair(), func(l *late) {
		other := l.try(l.there, "read")
		var tickets []*multilock.Ticket
		for range 20 {
			tickets = append(tickets, l.enqueue(l.here, "write"))
		}
		l.net.Delay(time.Second)
		l.watch.Take()
		var calls []*pending[struct{}]
		for _, ticket := range tickets {
			calls = append(calls, begin(l, func() (struct{}, error) { return struct{}{}, ticket.Cancel(l.bounded()) }))
		}
		for _, call := range calls {
			ok(l, errOf(call.wait()))
		}
		if n := l.watch.Count(); n > 2 { // the first one's; the others gather
			l.Errorf("%d commands removed them", n)
		}
		l.wantEntries(other)

		ticket := l.enqueue(l.here, "write")
		l.net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any { return unauthorized })
		if err := ticket.Cancel(l.bounded()); driverError(err) == nil {
			l.Errorf("Cancel = %v", err)
		}
		time.Sleep(time.Minute)
		if failed := l.heard.of(doclock.EventCleanUpFailed); len(failed) != 1 {
			l.Errorf("%d failures are reported", len(failed))
		}
		l.erase("write")
	})
}

// A successor was refused, and a duplicate of its acquire is executed late. So
// its entry waits in the document, and neither the successor nor the holder that
// releases knows. The successor must use that place, or remove it.
func TestASuccessorThatALateAcquireHasEntered(t *testing.T) {
	t.Parallel()
	rules := relations.Rules{
		"late": {"slow": {Kind: relations.Cooperative}, "fast": {Kind: relations.Assertive}},
		"slow": {},
		"fast": {},
	}
	for name, stays := range map[string]bool{"stays": true, "gives up": false} {
		virtually(t, name, func(p *place) {
			coll, net := p.faulty()
			l := p.locker(coll, rules)
			p.try(p.locker(p.coll, rules, doclock.TTL(time.Second), doclock.ClockTolerance(0)), "slow")
			fast := p.try(l, "fast")
			ctx, cancel := context.WithCancel(p.Context())
			defer cancel()
			duplicate := net.Arm(faultnet.Repeat, "findAndModify")
			successor := acquire(p, ctx, l, "late")
			p.queued(l, 1)
			time.Sleep(1200 * time.Millisecond) // "slow" has crashed
			must(p, duplicate.Let())
			if len(p.entries("late")) != 1 {
				p.Fatal("the duplicate has not entered")
			}
			handoff := net.Arm(faultnet.DelayReply, "findAndModify")
			released := begin(p, func() (struct{}, error) { return struct{}{}, fast.Release(p.Context()) })
			wait(p, handoff.Fired())
			if !stays {
				cancel()
				if _, err := successor.wait(); err == nil {
					p.Error("granted, though it gave up")
				}
			}
			must(p, handoff.Let())
			ok(p, errOf(released.wait()))
			if stays {
				p.release(p.granted(successor))
			}
			p.rest(l)
			if left := p.entries("late", "fast"); len(left) > 0 {
				p.Errorf("left behind: %+v", left)
			}
		})
	}
}
