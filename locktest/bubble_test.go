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
		mem := locktest.New(t)
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
		mem := locktest.New(t)
		locks := locker(t, collection(t, mem, bson.M{"_id": 1}))
		reason := errors.New("the cable is out")
		mem.Down(reason)
		began := time.Now()
		_, err := locks.Acquire(t.Context(), bson.M{"_id": 1})
		if !errors.Is(err, doclock.ErrNotAcquired) {
			t.Fatalf("without a server: %v", err)
		}
		if took := time.Since(began).Round(time.Second); took < 30*time.Second || took > 45*time.Second {
			t.Errorf("it was tried for %v", took)
		}
		if err := mem.Client().Ping(t.Context(), nil); !contains(err, reason.Error()) {
			t.Errorf("a ping doesn't say why: %v", err)
		}
		time.AfterFunc(5*time.Second, mem.Up)
		held, err := locks.Acquire(t.Context(), bson.M{"_id": 1})
		if err != nil {
			t.Fatal(err)
		}
		check(t, held.Release(t.Context()))
	})
}

// A client that is cut off loses its lease to another one, which goes on. A request
// that is on its way arrives all the same.
func TestCutInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := locktest.New(t)
		orders := collection(t, mem, bson.M{"_id": 1, "total": 0})
		client := mem.Connect()
		mine := locker(t, client.Database("test").Collection(orders.Name()))
		lease, err := mine.TryAcquire(t.Context(), bson.M{"_id": 1})
		check(t, err)
		mem.Delay(1, 2*time.Second)
		time.AfterFunc(time.Second, func() { mem.Cut(client) })
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
		if err := client.Ping(t.Context(), nil); !mongo.IsTimeout(err) || !contains(err, "doesn't reach") {
			t.Errorf("a ping of the client that is cut off: %v", err)
		}
		mem.Reconnect(client)
		var stored struct{ Total int }
		check(t, client.Database("test").Collection(orders.Name()).FindOne(t.Context(), bson.M{"_id": 1}).Decode(&stored))
		if stored.Total != 1 {
			t.Error("the request on its way has not arrived")
		}
	})
}

// A bubble may end while a Locker is open, and a lease is held or kept with its context.
func TestALockerMayBeOpenAtTheEndOfABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orders := locktest.New(t).Collection("orders", bson.M{"_id": 1}, bson.M{"_id": 2})
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
