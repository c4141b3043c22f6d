package multilock_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A waiter whose check finds a waiting writer asks for an entry of its own from
// then on. Further checks would keep the shared entry alive, without a pause.
func TestRule21ACheckThatFindsAWaiterIsTheLast(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var clocks turned
	coll, net := p.faulty()
	l, theirs := p.sharing(coll, clocks.option), p.locker(p.coll, relations.WritePreferring())
	first, waiting := p.acquire(l, "read"), p.enqueue(theirs, "write")
	var checks, commands atomic.Int32
	net.ArmWhere(faultnet.LoseRequest, func(_ string, body bson.Raw) bool {
		commands.Add(1)
		if bytes.Contains(body, []byte("$elemMatch")) {
			checks.Add(1)
		}
		return false
	})
	clocks.pass(1100 * time.Millisecond)
	second := acquire(t, p.bounded(), l, "read")
	p.eventually("it has asked a few times", func() bool { return commands.Load() >= 5 })
	if n := checks.Load(); n != 1 {
		t.Errorf("it checked %d times", n)
	}
	p.release(first)
	if err := waiting.Cancel(p.bounded()); err != nil {
		t.Fatal(err)
	}
	p.release(p.granted(second))
}

// The image of a TryAcquire counts too, even if it was refused.
func TestRule21ARefusedTryCountsForOthers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l, theirs := p.sharing(p.coll), p.locker(p.coll, relations.WritePreferring())
	p.acquire(l, "read")
	waiting := p.enqueue(theirs, "write")
	var doc bson.M
	_, err := l.TryAcquire(p.bounded(), flowers, "read", doclock.Into(&doc))
	p.conflict(err)
	if _, err = l.TryAcquire(p.bounded(), flowers, "read"); !errors.Is(err, doclock.ErrConflict) {
		t.Errorf("a reader passed a writer that was seen: %v", err)
	}
	if err := waiting.Cancel(p.bounded()); err != nil {
		t.Fatal(err)
	}
}

// A grant that is older than the last image makes no entry joinable.
func TestRule21NoHolderJoinsALateGrant(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l, theirs := p.sharing(coll), p.locker(p.coll, relations.WritePreferring())
	granted := net.Arm(faultnet.DelayReply, "findAndModify")
	first := begin(t, func() (*doclock.Lease, error) { return l.TryAcquire(p.bounded(), flowers, "read") })
	wait(t, granted.Fired())
	waiting := p.enqueue(theirs, "write")
	second := acquire(t, p.bounded(), l, "read")
	p.queued(l, 1)
	if err := granted.Let(); err != nil {
		t.Fatal(err)
	}
	lease, err := first.wait()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.TryAcquire(p.bounded(), flowers, "read"); !errors.Is(err, doclock.ErrConflict) {
		t.Errorf("a reader passed a writer that was seen: %v", err)
	}
	select {
	case <-second.done:
		t.Error("so did one that had seen it itself")
	default:
	}
	p.release(lease)
	if err := waiting.Cancel(p.bounded()); err != nil {
		t.Fatal(err)
	}
	p.release(p.granted(second))
}

// Waiters behind the one that waits in the document join its entry when it is
// granted, although others have arrived since: they have no places of their own.
func TestWaitersBehindAPlaceJoinItsEntry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l, theirs := p.locker(p.coll, relations.Fair(), doclock.ShareInProcess("read")), p.locker(p.coll, relations.Fair(), doclock.WaitTTL(time.Minute))
	holder := p.acquire(theirs, "write")
	var all []*pending[*doclock.Lease]
	for range 10 {
		all = append(all, acquire(t, p.bounded(), l, "read"))
	}
	p.eventually("one of them waits in the document", func() bool { return len(p.entries("read")) == 1 })
	p.queued(l, len(all))
	next := p.enqueue(theirs, "write")
	p.release(holder)
	var leases []*doclock.Lease
	for _, one := range all {
		leases = append(leases, p.granted(one))
	}
	if _, err := l.TryAcquire(p.bounded(), flowers, "read"); !errors.Is(err, doclock.ErrConflict) {
		t.Errorf("a later reader passed the writer: %v", err)
	}
	for _, lease := range leases {
		p.release(lease)
	}
	lease, err := next.Wait(p.bounded())
	if err != nil {
		t.Fatal(err)
	}
	p.release(lease)
}

// Several checks may be under way, each for a caller that wants the document.
func TestChecksAtTheSameTime(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var clocks turned
	l := p.sharing(p.coll, clocks.option)
	first := p.acquire(l, "read")
	clocks.pass(1100 * time.Millisecond)
	var all []*pending[*doclock.Lease]
	for range 8 {
		all = append(all, begin(t, func() (*doclock.Lease, error) {
			return l.TryAcquire(p.bounded(), flowers, "read", doclock.Into(&bson.M{}))
		}))
	}
	for _, one := range all {
		lease, err := one.wait()
		if err != nil {
			t.Fatal(err)
		}
		p.release(lease)
	}
	p.release(first)
	p.wantEntries()
}

// Of several callers that arrive at the same moment, one checks for all. It
// doesn't matter whether they try or wait, and whether an entry is in their way.
func TestOneChecksForAll(t *testing.T) {
	t.Parallel()
	for name, blocked := range map[string]bool{"no entry is in the way": false, "an entry is": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			var clocks turned
			coll, net := p.faulty()
			l, theirs := p.sharing(coll, clocks.option), p.locker(p.coll, relations.WritePreferring(), doclock.WaitTTL(time.Minute))
			first := p.acquire(l, "read")
			if blocked {
				p.enqueue(theirs, "write")
			}
			clocks.pass(220 * time.Millisecond)
			var checks atomic.Int32
			net.ArmWhere(faultnet.LoseRequest, func(_ string, body bson.Raw) bool {
				if bytes.Contains(body, []byte("$elemMatch")) {
					checks.Add(1)
				}
				return false
			})
			answer := net.Arm(faultnet.DelayReply, "findAndModify")
			ctx, cancel := context.WithCancel(p.bounded())
			var all []*pending[*doclock.Lease]
			for i := range 16 {
				begun := make(chan struct{})
				all = append(all, begin(t, func() (*doclock.Lease, error) {
					close(begun)
					if i%2 == 1 {
						return l.TryAcquire(ctx, flowers, "read")
					}
					return l.Acquire(ctx, flowers, "read")
				}))
				<-begun
			}
			wait(t, answer.Fired())
			if err := answer.Let(); err != nil {
				t.Fatal(err)
			}
			if blocked {
				for i, one := range all {
					if i%2 == 1 {
						_, err := one.wait()
						p.conflict(err)
					}
				}
				cancel()
			}
			for _, one := range all {
				if lease, err := one.wait(); err == nil {
					p.release(lease)
				} else if !blocked {
					t.Error(err)
				}
			}
			cancel()
			if n := checks.Load(); n != 1 {
				t.Errorf("%d checks", n)
			}
			p.release(first)
		})
	}
}

// After the end of the validity the first holder releases the entry for all, and
// others may be let in. A later release returns the loss.
func TestRule21AHolderThatStaysAfterTheEndHasLost(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var clocks turned
	l, theirs := p.sharing(p.coll, clocks.option), p.locker(p.coll, relations.WritePreferring())
	first, second, third := p.acquire(l, "read"), p.acquire(l, "read"), p.acquire(l, "read")
	clocks.pass(11 * time.Second)
	p.release(second)
	writer := p.try(theirs, "write")
	p.want(first.Release(p.bounded()), doclock.ErrLost)
	p.want(third.UpdateAndRelease(p.bounded(), bson.M{"$set": bson.M{"late": true}}), doclock.ErrLost)
	p.want(third.Release(p.bounded()), doclock.ErrLost)
	p.wantEntries(writer)
	p.release(writer)
}

// A holder's release waits for that holder's own write, while others stay.
func TestAReleaseWaitsForTheWriteOfTheSameHolder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.sharing(coll)
	first, second := p.acquire(l, "read"), p.acquire(l, "read")
	write := net.Arm(faultnet.DelayReply, "")
	ctx, cancel := context.WithCancel(t.Context())
	updated := begin(t, func() (struct{}, error) {
		return struct{}{}, second.Update(ctx, bson.M{"$inc": bson.M{"total": 1}})
	})
	wait(t, write.Fired())
	cancel()
	_, err := updated.wait()
	p.want(err, doclock.ErrOutcomeUnknown)
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	p.want(second.Release(short), doclock.ErrOutcomeUnknown, context.DeadlineExceeded)
	if err := write.Let(); err != nil {
		t.Fatal(err)
	}
	p.release(second)
	p.release(first)
	p.wantEntries()
}
