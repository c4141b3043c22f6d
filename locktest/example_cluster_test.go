package locktest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Export is a program's function: it works on an order for a minute, and says in the
// order that it is done.
func Export(ctx context.Context, locks *writelock.Locker, id string) error {
	return locks.Do(ctx, bson.M{"_id": id}, func(ctx context.Context, lease doclock.Lease) error {
		select {
		case <-time.After(time.Minute):
			return lease.Update(ctx, bson.M{"$set": bson.M{"exported": true}})
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// The program goes on while primaries step down, one is cut off from the others, and
// replies are lost. It takes no time.
func TestExportAcrossFailOvers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := locktest.New(t, locktest.ReplicaSet())
		orders := cluster.Collection("orders", bson.M{"_id": "A-17"})
		locks, err := writelock.New(orders)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- Export(t.Context(), locks, "A-17") }()

		time.Sleep(10 * time.Second)
		cluster.StepDown()

		time.Sleep(10 * time.Second)
		cluster.LoseReplies(1, locktest.Renewals)

		time.Sleep(10 * time.Second)
		cluster.Isolate(cluster.Primary()) // it goes on, and acknowledges nothing
		time.Sleep(time.Second)
		cluster.StepDown() // the others have a primary of their own
		time.Sleep(time.Second)
		cluster.Heal() // what the old one wrote alone is lost

		if err := <-done; err != nil {
			t.Fatal(err)
		}
		var order struct{ Exported bool }
		if err := orders.FindOne(t.Context(), bson.M{"_id": "A-17"}).Decode(&order); err != nil || !order.Exported {
			t.Errorf("exported: %v, %v", order.Exported, err)
		}
		if err := locks.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
