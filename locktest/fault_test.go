package locktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

var order = bson.M{"_id": 1}

// scene is a server, and two programs that lock its one document.
type scene struct {
	*locktest.Server
	orders       *mongo.Collection
	mine, others *writelock.Locker
}

func newScene(t *testing.T) *scene {
	mem := locktest.New(t)
	orders := collection(t, mem, bson.M{"_id": 1, "total": 1})
	return &scene{mem, orders, locker(t, orders), locker(t, orders, doclock.Owner("others"))}
}

func acquired(t *testing.T, locks *writelock.Locker, opts ...doclock.AcquireOption) doclock.Lease {
	t.Helper()
	lease, err := locks.TryAcquire(t.Context(), order, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestFail(t *testing.T) {
	s := newScene(t)
	s.Fail(1, mongo.CommandError{Code: 13, Message: "not authorized on shop"})
	_, err := s.mine.TryAcquire(t.Context(), order)
	var server mongo.CommandError
	if !errors.Is(err, doclock.ErrNotAcquired) || !errors.As(err, &server) || server.Code != 13 || server.Message != "not authorized on shop" {
		t.Errorf("a refused acquire: %v", err)
	}
	lease := acquired(t, s.mine)
	s.Fail(1, mongo.CommandError{Code: 121, Message: "Document failed validation"})
	if err := lease.Update(t.Context(), bson.M{"$inc": bson.M{"total": 1}}); !errors.As(err, &server) || errors.Is(err, doclock.ErrOutcomeUnknown) {
		t.Errorf("a refused update: %v", err)
	}
	if total(t, s.orders) != 1 {
		t.Error("the refused update was applied")
	}
	s.Fail(5, mongo.CommandError{Code: 13})
	s.Fail(0, mongo.CommandError{})
	check(t, lease.Release(t.Context()))
}

// A label of the error has the driver or the library repeat the command.
func TestFailWithALabel(t *testing.T) {
	s := newScene(t)
	s.Fail(1, mongo.CommandError{Code: 91, Message: "shutting down", Labels: []string{"RetryableWriteError"}})
	lease := acquired(t, s.mine)
	check(t, lease.Release(t.Context()))
}

func TestLoseRequests(t *testing.T) {
	s := newScene(t)
	s.LoseRequests(2)
	lease := acquired(t, s.mine)
	s.LoseRequests(1)
	check(t, lease.UpdateAndRelease(t.Context(), bson.M{"$inc": bson.M{"total": 1}}))
	if total(t, s.orders) != 2 {
		t.Errorf("the total is %d", total(t, s.orders))
	}
	check(t, acquired(t, s.others).Release(t.Context()))
}

func TestLoseReplies(t *testing.T) {
	s := newScene(t)
	s.LoseReplies(1)
	lease := acquired(t, s.mine)
	s.LoseReplies(2)
	check(t, lease.Update(t.Context(), bson.M{"$inc": bson.M{"total": 1}}))
	s.LoseReplies(1)
	check(t, lease.UpdateAndRelease(t.Context(), bson.M{"$inc": bson.M{"total": 1}}))
	if total(t, s.orders) != 3 {
		t.Errorf("the total is %d: an update was applied twice, or not", total(t, s.orders))
	}
}

// While no reply arrives, nobody knows whether the last update was applied.
func TestLoseAllReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		lease := acquired(t, s.mine)
		s.LoseReplies(1 << 30)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := lease.UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"total": 1}})
		if !errors.Is(err, doclock.ErrOutcomeUnknown) {
			t.Errorf("without a reply: %v", err)
		}
		s.LoseReplies(0)
		if total(t, s.orders) != 2 {
			t.Errorf("the total is %d", total(t, s.orders))
		}
	})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.Delay(1, time.Hour)
		came := make(chan error, 1)
		go func() {
			_, err := s.mine.TryAcquire(t.Context(), order)
			came <- err
		}()
		synctest.Wait()
		if len(came) > 0 {
			t.Fatalf("it came before its time: %v", <-came)
		}
		s.Advance(time.Hour)
		check(t, <-came)
	})
}

// A request arrives though its sender has given up.
func TestDelayBeyondTheSendersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on a busy machine the write might not be sent in its time
		s := newScene(t)
		lease := acquired(t, s.mine)
		s.Delay(1, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		u := bson.D{{Key: "$inc", Value: bson.M{"total": 1}}}
		if _, err := s.orders.UpdateOne(ctx, lease.Guard(), u); !mongo.IsTimeout(err) {
			t.Errorf("a write that is late: %v", err)
		}
		if total(t, s.orders) != 1 {
			t.Error("it was executed at once")
		}
		s.Advance(time.Hour)
		if total(t, s.orders) != 2 {
			t.Error("it was not executed")
		}
	})
}

func TestLose(t *testing.T) {
	s := newScene(t)
	lease := acquired(t, s.mine)
	check(t, s.Lose(lease))
	if lease.Err() != nil {
		t.Errorf("the holder has asked nobody, and knows of the loss: %v", lease.Err())
	}
	held := acquired(t, s.others)
	if err := lease.Update(t.Context(), bson.M{"$inc": bson.M{"total": 1}}); !errors.Is(err, doclock.ErrLost) {
		t.Errorf("an update after the loss: %v", err)
	}
	if !errors.Is(lease.Err(), doclock.ErrLost) || total(t, s.orders) != 1 {
		t.Errorf("after the loss: %v, %d", lease.Err(), total(t, s.orders))
	}
	check(t, held.Release(t.Context()))
	if err := s.Lose(lease); !contains(err, "has no entry in this server") {
		t.Errorf("a lease that is lost: %v", err)
	}
	if err := locktest.New(t).Lose(held); !contains(err, "has no entry in this server") {
		t.Errorf("another server's lease: %v", err)
	}
	if err := s.Lose(nil); !contains(err, "the lease is nil") {
		t.Errorf("nil: %v", err)
	}
	for _, guard := range []bson.D{nil, {{Key: "_id", Value: 1}}, {{Key: "_id", Value: func() {}}}} {
		if err := s.Lose(guarded(guard)); err == nil {
			t.Errorf("no guard: %v", guard)
		}
	}
}

func TestAdvance(t *testing.T) {
	s := newScene(t)
	before := s.Now()
	lease := acquired(t, s.mine)
	s.Advance(9 * time.Second)
	if _, err := s.others.TryAcquire(t.Context(), order); !errors.Is(err, doclock.ErrConflict) {
		t.Errorf("before the end of the lease: %v", err)
	}
	s.Advance(2 * time.Second)
	if passed := s.Now().Sub(before); passed < 11*time.Second || passed > 20*time.Second {
		t.Errorf("%v have passed", passed)
	}
	held := acquired(t, s.others)
	if lease.Err() != nil {
		t.Errorf("the holder's own clock has moved: %v", lease.Err())
	}
	if held.Fence() <= lease.Fence() {
		t.Errorf("the fencing tokens are %d and %d", lease.Fence(), held.Fence())
	}
	if err := lease.Renew(t.Context()); !errors.Is(err, doclock.ErrLost) {
		t.Errorf("a renewal: %v", err)
	}
	check(t, held.Release(t.Context()))
}

type guarded bson.D

func (g guarded) Guard() bson.D { return bson.D(g) }
