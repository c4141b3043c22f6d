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

// In a bubble the timers of renewals and waits, the leases and the server have one
// clock, which costs no time.
func TestTimeInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		mem := locktest.New()
		orders := collection(t, mem, bson.M{"_id": 1})
		first, second := locker(t, orders), locker(t, orders)

		held, err := first.Acquire(ctx, bson.M{"_id": 1})
		check(t, err)
		work := held.KeepAlive(ctx)
		time.Sleep(time.Hour)
		if work.Err() != nil || held.Err() != nil {
			t.Fatalf("after an hour of renewals: %v, %v", context.Cause(work), held.Err())
		}
		if _, err := second.TryAcquire(ctx, bson.M{"_id": 1}); !errors.Is(err, doclock.ErrConflict) {
			t.Fatalf("beside a holder: %v", err)
		}

		done := make(chan time.Time)
		go func() {
			next, err := second.Acquire(ctx, bson.M{"_id": 1})
			check(t, err)
			done <- time.Now()
			check(t, next.Release(ctx))
		}()
		time.Sleep(time.Minute)
		released := time.Now()
		check(t, held.Release(ctx))
		if waited := (<-done).Sub(released); waited > 15*time.Second {
			t.Errorf("the waiter came %v after the release", waited)
		}
		synctest.Wait()

		held, err = first.Acquire(ctx, bson.M{"_id": 1})
		check(t, err)
		time.Sleep(11 * time.Second)
		if !errors.Is(held.Err(), doclock.ErrLost) {
			t.Errorf("a lease that nobody renewed: %v", held.Err())
		}
	})
}

// While no server can be reached, a command is tried for 30 s.
func TestDownInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := locktest.New()
		locks := locker(t, collection(t, mem, bson.M{"_id": 1}))
		reason := errors.New("the cable is out")
		mem.Down(reason)
		began := time.Now()
		_, err := locks.Acquire(t.Context(), bson.M{"_id": 1})
		if !errors.Is(err, doclock.ErrNotAcquired) || !contains(err, reason.Error()) {
			t.Fatalf("without a server: %v", err)
		}
		if took := time.Since(began).Round(time.Second); took < 30*time.Second || took > 45*time.Second {
			t.Errorf("it was tried for %v", took)
		}
		time.AfterFunc(5*time.Second, mem.Up)
		held, err := locks.Acquire(t.Context(), bson.M{"_id": 1})
		if err != nil {
			t.Fatal(err)
		}
		check(t, held.Release(t.Context()))
	})
}

// A request that is late is executed after its sender has given up, and the
// clean-up removes what it entered.
func TestLateRequestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := locktest.New()
		orders := collection(t, mem, bson.M{"_id": 1})
		locks := locker(t, orders)
		mem.Delay(1, 2*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := locks.TryAcquire(ctx, bson.M{"_id": 1})
		if !errors.Is(err, doclock.ErrNotAcquired) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a late acquire: %v", err)
		}
		time.Sleep(2 * time.Second) // the clean-up comes again and again
		other := locker(t, orders)
		for range 100 {
			held, err := other.TryAcquire(t.Context(), bson.M{"_id": 1})
			if err == nil {
				check(t, held.Release(t.Context()))
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Error("the entry of the late acquire was not removed")
	})
}

// A client that is cut off loses its lease to another one, which goes on. A request
// that is on its way arrives all the same.
func TestCutInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := locktest.New()
		orders := collection(t, mem, bson.M{"_id": 1, "total": 0})
		client, err := mem.Connect()
		check(t, err)
		mine := locker(t, client.Database("test").Collection(orders.Name()))
		lease, err := mine.TryAcquire(t.Context(), bson.M{"_id": 1})
		check(t, err)
		mem.Delay(1, 2*time.Second)
		time.AfterFunc(time.Second, func() { check(t, mem.Cut(client, errors.New("the cable is out"))) })
		_, err = client.Database("test").Collection(orders.Name()).UpdateByID(t.Context(), 1, bson.M{"$inc": bson.M{"total": 1}})
		if !mongo.IsNetworkError(err) {
			t.Errorf("a request on its way when its connection broke: %v", err)
		}
		held, err := locker(t, orders).Acquire(t.Context(), bson.M{"_id": 1})
		check(t, err)
		if lease.Err() == nil {
			t.Error("the holder that was cut off believes in its lease beside another one")
		}
		check(t, held.Release(t.Context()))
		if err := client.Ping(t.Context(), nil); !mongo.IsTimeout(err) || !contains(err, "the cable is out") {
			t.Errorf("a ping of the client that is cut off: %v", err)
		}
		check(t, mem.Cut(client, nil))
		var stored struct{ Total int }
		check(t, client.Database("test").Collection(orders.Name()).FindOne(t.Context(), bson.M{"_id": 1}).Decode(&stored))
		if stored.Total != 1 {
			t.Error("the request on its way has not arrived")
		}
		check(t, client.Disconnect(t.Context()))
		if mem.Cut(client, nil) == nil {
			t.Error("a disconnected client was cut off")
		}
	})
}

// A server of the test's outside may be used in one bubble: a command that waits
// there doesn't keep the bubble's time from passing.
func TestAServerFromOutside(t *testing.T) {
	mem := locktest.New()
	orders := collection(t, mem, bson.M{"_id": 1})
	check(t, orders.FindOne(t.Context(), bson.M{}).Err())
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		mem.Delay(1, time.Minute)
		check(t, orders.FindOne(t.Context(), bson.M{}).Err())
		mem.Down(errors.New("connection refused"))
		if err := mem.Client().Ping(t.Context(), nil); !mongo.IsTimeout(err) {
			t.Errorf("a ping of a server that is down: %v", err)
		}
		mem.Up()
		mem.Delay(1, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := orders.FindOne(ctx, bson.M{}).Err(); !mongo.IsTimeout(err) {
			t.Errorf("a find that was late: %v", err)
		}
		if passed := time.Since(start); passed != 91*time.Second {
			t.Errorf("%v have passed", passed)
		}
	})
	mem.Advance(time.Second)
	check(t, orders.FindOne(t.Context(), bson.M{}).Err())
}

// A bubble may end while a Locker is open, and a lease is held or kept with its context.
func TestALockerMayBeOpenAtTheEndOfABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orders, err := locktest.New().Collection("orders", bson.M{"_id": 1}, bson.M{"_id": 2})
		if err != nil {
			t.Fatal(err)
		}
		locks, err := writelock.New(orders)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []int{1, 2} {
			lease, err := locks.TryAcquire(t.Context(), doclock.ID(id))
			if err != nil {
				t.Fatal(err)
			}
			if id == 2 {
				lease.KeepAlive(t.Context())
			}
		}
	})
}
