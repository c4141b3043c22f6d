package locktest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// disturb gives the server one order for its next commands, or turns its clock.
func disturb(mem *locktest.Server, r *rand.Rand) {
	n := r.IntN(4)
	switch r.IntN(8) {
	case 0:
		mem.Fail(n, mongo.CommandError{Code: 11600, Name: "InterruptedAtShutdown", Message: "interrupted at shutdown", Labels: []string{"RetryableWriteError"}})
	case 1:
		mem.Fail(n, mongo.CommandError{Code: 13, Message: "not authorized"})
	case 2:
		mem.LoseRequests(n)
	case 3:
		mem.LoseReplies(n)
	case 4:
		mem.Delay(n, time.Duration(r.Int64N(int64(8*time.Second))))
	case 5:
		mem.Advance(time.Duration(r.Int64N(int64(20*time.Second))) - 10*time.Second)
	case 6:
		mem.Down(errors.New("connection refused"))
	default:
		mem.Up()
	}
}

// Many programs increment what a lock protects, while whatever the server can do to
// them happens in any order. No increment is lost, and none is done twice.
func TestStorm(t *testing.T) {
	const programs, rounds = 5, 20
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			mem := locktest.New()
			orders := collection(t, mem, bson.M{"_id": 1, "total": 0})
			var all sync.WaitGroup
			var mu sync.Mutex
			var done, unknown int
			for p := range programs {
				locks := locker(t, orders)
				r := rand.New(rand.NewPCG(seed, uint64(p)))
				all.Go(func() {
					for range rounds {
						var order struct{ Total int }
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.Int64N(int64(40*time.Second))))
						lease, err := locks.Acquire(ctx, bson.M{"_id": 1}, doclock.Into(&order))
						if err == nil {
							time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
							err = lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"total": order.Total + 1}})
							mu.Lock()
							switch {
							case err == nil:
								done++
							case errors.Is(err, doclock.ErrOutcomeUnknown):
								unknown++
							}
							mu.Unlock()
						}
						cancel()
					}
				})
			}
			ended := make(chan struct{})
			go func() { all.Wait(); close(ended) }()
			r := rand.New(rand.NewPCG(seed, programs))
			for stormy := true; stormy; {
				disturb(mem, r)
				select {
				case <-ended:
					stormy = false
				case <-time.After(time.Duration(r.Int64N(int64(2 * time.Second)))):
				}
			}
			mem.Up()
			mem.Fail(0, mongo.CommandError{})
			mem.LoseRequests(0)
			mem.LoseReplies(0)
			mem.Delay(0, 0)
			time.Sleep(time.Minute)
			var order struct{ Total int }
			check(t, orders.FindOne(t.Context(), bson.M{"_id": 1}).Decode(&order))
			if order.Total < done || order.Total > done+unknown || done == 0 {
				t.Errorf("seed %d: the total is %d, after %d increments and %d of unknown outcome", seed, order.Total, done, unknown)
			}
			t.Logf("seed %d: %d done, %d unknown, total %d", seed, done, unknown, order.Total)
		})
	}
}
