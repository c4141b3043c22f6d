package otel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// What a Locker's caller has seen is what the metrics and spans say, with the times at which things happened. The
// bubble doesn't end while a goroutine is left.
func TestALocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		check := func(err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		orders := locktest.New(t).Collection("orders", bson.M{"_id": 1})
		locks, err := writelock.New(orders, doclock.OnEvent(r.Observe))
		check(err, nil)
		ctx, caller := r.tracer.Tracer("caller").Start(t.Context(), "caller")
		began := time.Now()

		first, err := locks.Acquire(ctx, doclock.ID(1))
		check(err, nil)
		_, err = locks.TryAcquire(ctx, doclock.ID(1))
		check(err, doclock.ErrConflict)
		_, err = locks.TryAcquire(ctx, doclock.ID(2))
		check(err, doclock.ErrNotFound)
		short, cancel := context.WithTimeout(ctx, time.Second)
		_, err = locks.Acquire(short, doclock.ID(1))
		check(err, context.DeadlineExceeded)
		cancel()
		time.AfterFunc(2*time.Second, func() {
			check(first.Renew(ctx), nil)
			check(first.Release(context.Background()), nil)
		})
		second, err := locks.Acquire(ctx, doclock.ID(1))
		check(err, nil)
		token, err := second.Detach(ctx)
		check(err, nil)
		resumed, err := locks.Resume(ctx, doclock.ID(1), token)
		check(err, nil)
		_, err = orders.UpdateOne(ctx, doclock.ID(1), bson.M{"$unset": bson.M{"lock.tags": ""}}) // the entry is gone
		check(err, nil)
		check(resumed.Update(ctx, bson.M{"$set": bson.M{"count": 1}}), doclock.ErrLost)
		last, err := locks.Acquire(ctx, doclock.ID(1))
		check(err, nil)
		check(last.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"count": 1}}), nil)
		_, err = locks.Acquire(ctx, doclock.ID(1)) // nobody releases it
		check(err, nil)
		time.Sleep(time.Minute)
		check(locks.Close(ctx), nil)
		synctest.Wait()

		points := r.points()
		delete(points, "commands{tag=write}")
		r.equal("points", points, map[string]string{
			"wait.duration{outcome=granted,tag=write}":                      "5 in 2s",
			"wait.duration{outcome=refused,tag=write,error.type=conflict}":  "1 in 0s",
			"wait.duration{outcome=refused,tag=write,error.type=not_found}": "1 in 0s",
			"wait.duration{outcome=gave_up,tag=write,error.type=timeout}":   "1 in 1s",
			"hold.duration{outcome=handed_over,tag=write}":                  "1 in 3s",
			"hold.duration{outcome=detached,tag=write}":                     "1 in 0s",
			"hold.duration{outcome=lost,tag=write,error.type=lost}":         "2 in 9.999s",
			"hold.duration{outcome=released,tag=write}":                     "1 in 0s",
			"conflicts{tag=write}":                                          "3",
			"losses{tag=write}":                                             "2",
			"renewals{tag=write}":                                           "1",
		})
		var spans []string
		for _, s := range r.ended() {
			r.equal("parent of "+s.Name(), s.Parent().SpanID(), caller.SpanContext().SpanID())
			spans = append(spans, fmt.Sprint(s.Name(), " ", s.StartTime().Sub(began), " ", s.EndTime().Sub(began)))
		}
		r.equal("spans", strings.Join(spans, "\n"), `acquire orders 0s 0s
acquire orders 0s 0s
acquire orders 0s 0s
acquire orders 0s 1s
hold orders 0s 3s
acquire orders 1s 3s
hold orders 3s 3s
acquire orders 3s 3s
hold orders 3s 3s
acquire orders 3s 3s
hold orders 3s 3s
acquire orders 3s 3s
hold orders 3s 12.999s`)
	})
}
