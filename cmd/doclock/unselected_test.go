package main

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
)

// A server that isn't found is told from one that is slow, also in what an acquire
// returns.
func TestUnselected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := locktest.NewCluster(t)
		orders := cluster.Collection("orders", bson.M{"_id": 1})
		locks, err := writelock.New(orders)
		if err != nil {
			t.Fatal(err)
		}
		within := func(run func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return run(ctx)
		}
		ping := func(ctx context.Context) error { return orders.Database().Client().Ping(ctx, nil) }
		find := func(ctx context.Context) error { return orders.FindOne(ctx, bson.M{}).Err() }
		claim := func(ctx context.Context) error {
			_, err := locks.Acquire(ctx, bson.M{}, doclock.SkipLocked())
			return err
		}
		cluster.Delay(1, time.Hour)
		if err := within(find); !errors.Is(err, context.DeadlineExceeded) || unselected(err) || unselected(nil) {
			t.Errorf("a find that is slow: %v", err)
		}
		cluster.Cut(orders.Database().Client())
		synctest.Wait() // until the driver has noticed
		for name, run := range map[string]func(context.Context) error{"a ping": ping, "a claim": claim} {
			if err := within(run); !unselected(err) {
				t.Errorf("%s of a server that isn't found: %v", name, err)
			}
		}
		if err := locks.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
