package doclock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A server's clock jumps during the check.
func TestCheckServerSeesJumps(t *testing.T) {
	const quarter = 125 * time.Millisecond
	for _, c := range []struct{ jump, seen time.Duration }{
		{0, 0}, {quarter, 0}, {-quarter, 0}, {2 * time.Second, 2 * time.Second}, {-2 * time.Second, -2 * time.Second},
	} {
		t.Run(c.jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := locktest.NewCluster(t)
				orders := cluster.Collection("orders", bson.M{"_id": 1})
				cluster.Cut(orders.Database().Client(), cluster.Secondaries()...) // so that the primary answers
				synctest.Wait()
				time.AfterFunc(500*time.Millisecond, func() { cluster.Advance(cluster.Primary(), c.jump) })
				info, err := doclock.CheckServer(t.Context(), orders)
				if err != nil {
					t.Fatal(err)
				}
				if wrong := info.ClockJump - c.seen; wrong.Abs() > 2*time.Millisecond || info.ClockSkew != 0 || info.ClockReadings != 16 || info.ClockWatched != 900*time.Millisecond {
					t.Errorf("CheckServer = %+v", info)
				}
			})
		})
	}
}

func TestCheckServerEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orders := locktest.NewCluster(t).Collection("orders")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // between two readings
		defer cancel()
		begun := time.Now()
		if _, err := doclock.CheckServer(ctx, orders); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
