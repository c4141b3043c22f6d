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

// Who looks, and finds a writer waiting, asks for an entry of its own from then
// on: looks would keep the entry alive, and come without a pause.
func TestRule21ALookThatFindsSomebodyIsTheLast(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var clocks turned
	coll, net := p.faulty()
	l, theirs := p.sharing(coll, clocks.option), p.locker(p.coll, relations.WritePreferring())
	first, waiting := p.acquire(l, "read"), p.enqueue(theirs, "write")
	var looks, commands atomic.Int32
	net.ArmWhere(faultnet.LoseRequest, func(_ string, body bson.Raw) bool {
		commands.Add(1)
		if bytes.Contains(body, []byte("$elemMatch")) {
			looks.Add(1)
		}
		return false
	})
	clocks.pass(1100 * time.Millisecond)
	second := acquire(t, p.bounded(), l, "read")
	p.eventually("it has asked a few times", func() bool { return commands.Load() >= 5 })
	if n := looks.Load(); n != 1 {
		t.Errorf("it looked %d times", n)
	}
	p.release(first)
	if err := waiting.Cancel(p.bounded()); err != nil {
		t.Fatal(err)
	}
	p.release(p.granted(second))
}

// A TryAcquire's image counts too, whatever it was answered.
func TestRule21ARefusedTrySeesForOthers(t *testing.T) {
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

// A grant that is older than what was seen opens nothing.
func TestRule21NobodyJoinsALateGrant(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l, theirs := p.sharing(coll), p.locker(p.coll, relations.WritePreferring())
	granted := net.Arm(faultnet.DelayReply, "findAndModify")
	first := begin(t, func() (*doclock.Lease, error) { return l.TryAcquire(p.bounded(), flowers, "read") })
	wait(t, granted.Fired())
	waiting := p.enqueue(theirs, "write")
	second := acquire(t, p.bounded(), l, "read")
	p.standing(l, 1)
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

// Those who stood in line behind the one that waited in the document come in
// with it, though others have come since: they have no places of their own.
func TestAWaitersFollowersComeInWithIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l, theirs := p.locker(p.coll, relations.Fair(), doclock.ShareInProcess("read")), p.locker(p.coll, relations.Fair(), doclock.WaitTTL(time.Minute))
	holder := p.acquire(theirs, "write")
	var all []*pending[*doclock.Lease]
	for range 10 {
		all = append(all, acquire(t, p.bounded(), l, "read"))
	}
	p.eventually("one of them waits in the document", func() bool { return len(p.entries("read")) == 1 })
	p.standing(l, len(all))
	next := p.enqueue(theirs, "write")
	p.release(holder)
	var leases []*doclock.Lease
	for _, one := range all {
		leases = append(leases, p.granted(one))
	}
	if _, err := l.TryAcquire(p.bounded(), flowers, "read"); !errors.Is(err, doclock.ErrConflict) {
		t.Errorf("who came later passed the writer: %v", err)
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

// Several may look at a time: those who want the document.
func TestLooksAtTheSameTime(t *testing.T) {
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

// Of those who come at the same moment one looks for all; whether they try or
// wait, and whether or not they see somebody.
func TestOneLooksForAll(t *testing.T) {
	t.Parallel()
	for name, crossed := range map[string]bool{"nobody is in the way": false, "somebody is": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			var clocks turned
			coll, net := p.faulty()
			l, theirs := p.sharing(coll, clocks.option), p.locker(p.coll, relations.WritePreferring(), doclock.WaitTTL(time.Minute))
			first := p.acquire(l, "read")
			if crossed {
				p.enqueue(theirs, "write")
			}
			clocks.pass(220 * time.Millisecond)
			var looks atomic.Int32
			net.ArmWhere(faultnet.LoseRequest, func(_ string, body bson.Raw) bool {
				if bytes.Contains(body, []byte("$elemMatch")) {
					looks.Add(1)
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
			if crossed {
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
				} else if !crossed {
					t.Error(err)
				}
			}
			cancel()
			if n := looks.Load(); n != 1 {
				t.Errorf("%d looked", n)
			}
			p.release(first)
		})
	}
}

// After the end whoever releases first does so for all, and others may be let
// in: who releases later is told of the loss.
func TestRule21WhoStaysAfterTheEndHasLost(t *testing.T) {
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

// A holder's release waits for its own write, though others stay.
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
