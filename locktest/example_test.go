package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Print is a program's function: it prints an order, and counts the prints.
func Print(ctx context.Context, locks *writelock.Locker, id string, printer func(doclock.Lease)) error {
	lease, err := locks.Acquire(ctx, bson.M{"_id": id}, doclock.MaxWait(0))
	if err != nil {
		return err
	}
	printer(lease)
	return lease.UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"prints": 1}})
}

// A test of a program's function: what it does alone, beside a holder, after a
// lost reply, and when it loses the lock.
func Example() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17", "prints": 0})
	mine, err := writelock.New(orders)
	must(err)
	others, err := writelock.New(orders, doclock.Owner("another program"))
	must(err)

	fmt.Println("alone:", Print(ctx, mine, "A-17", func(doclock.Lease) {}), prints(orders))

	held, err := others.TryAcquire(ctx, bson.M{"_id": "A-17"})
	must(err)
	err = Print(ctx, mine, "A-17", func(doclock.Lease) {})
	fmt.Println("beside a holder:", errors.Is(err, doclock.ErrConflict), prints(orders))
	must(held.Release(ctx))

	err = Print(ctx, mine, "A-17", func(doclock.Lease) { mem.LoseReplies(1) })
	fmt.Println("after a lost reply, once all the same:", err, prints(orders))

	err = Print(ctx, mine, "A-17", func(lease doclock.Lease) {
		must(mem.Lose(lease))
	})
	fmt.Println("after a loss:", errors.Is(err, doclock.ErrLost), prints(orders))

	err = Print(ctx, mine, "A-17", func(lease doclock.Lease) {
		mem.Advance(11 * time.Second) // the printer was slow
		next, err := others.TryAcquire(ctx, bson.M{"_id": "A-17"})
		must(err)
		must(next.Release(ctx))
	})
	fmt.Println("too late:", errors.Is(err, doclock.ErrLost), prints(orders))

	// Output:
	// alone: <nil> 1
	// beside a holder: true 1
	// after a lost reply, once all the same: <nil> 2
	// after a loss: true 2
	// too late: true 2
}

func prints(orders *mongo.Collection) int {
	var order struct{ Prints int }
	must(orders.FindOne(context.Background(), bson.M{"_id": "A-17"}).Decode(&order))
	return order.Prints
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
