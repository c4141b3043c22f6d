package writelock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Two workers must not fulfil one order. Whoever comes second finds it done.
func Example() {
	ctx := context.Background()
	orders, done := fixture.Collection(ctx, "orders", bson.M{"_id": "A-17", "state": "paid"})
	defer done()

	locks, err := writelock.New(orders)
	if err != nil {
		log.Fatal(err)
	}
	fulfil := func(worker string) error {
		var order struct{ State string }
		lease, err := locks.Acquire(ctx, bson.M{"_id": "A-17"}, doclock.Into(&order))
		if err != nil {
			return err
		}
		if order.State != "paid" {
			fmt.Println(worker, "finds it", order.State)
			return lease.Release(ctx)
		}
		fmt.Println(worker, "fulfils it")
		return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"state": "fulfilled"}})
	}
	for _, worker := range []string{"Ada", "Bob"} {
		if err := fulfil(worker); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// Ada fulfils it
	// Bob finds it fulfilled
}

// A lock that is held by another names its holder, in one command.
func ExampleLocker_TryAcquire() {
	ctx := context.Background()
	orders, done := fixture.Collection(ctx, "orders", bson.M{"_id": "A-17"})
	defer done()

	ada, _ := writelock.New(orders, doclock.Owner("Ada"))
	bob, _ := writelock.New(orders, doclock.Owner("Bob"))
	lease, err := ada.TryAcquire(ctx, bson.M{"_id": "A-17"})
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	_, err = bob.TryAcquire(ctx, bson.M{"_id": "A-17"})
	var conflict *doclock.ConflictError
	if errors.As(err, &conflict) {
		fmt.Println("held by", conflict.Holders[0].Owner)
	}
	// Output:
	// held by Ada
}

// A named lock is a document that has nothing but the lock. Upsert makes it.
func Example_namedLock() {
	ctx := context.Background()
	orders, done := fixture.Collection(ctx, "orders", bson.M{"_id": "A-17"})
	defer done()

	names, err := writelock.New(orders.Database().Collection("locks"), doclock.Upsert())
	if err != nil {
		log.Fatal(err)
	}
	err = names.Do(ctx, doclock.ID("monthly report"), func(context.Context, *doclock.Lease) error {
		fmt.Println("one report at a time")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// one report at a time
}

// A cron job runs on each of several machines, and must run once for each tick.
// The clocks of the machines differ, and the job is done in a moment. So the lock
// outlasts the job: a machine that comes late finds the document locked. The time
// is shorter than the pause between two ticks, and longer than the difference of
// the clocks.
func ExampleLocker_TryAcquire_oncePerTick() {
	ctx := context.Background()
	jobs, done := fixture.Collection(ctx, "orders", bson.M{"_id": "nightly report"})
	defer done()

	locks, err := writelock.New(jobs)
	if err != nil {
		log.Fatal(err)
	}
	tick := func(machine string) error {
		lease, err := locks.TryAcquire(ctx, bson.M{"_id": "nightly report"},
			doclock.HoldAtLeast(time.Minute), doclock.Owner(machine))
		var conflict *doclock.ConflictError
		if errors.As(err, &conflict) {
			fmt.Println(machine, "leaves it to", conflict.Holders[0].Owner)
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println(machine, "runs the job")
		return lease.Release(ctx) // which leaves a remainder for the rest of the minute
	}
	for _, machine := range []string{"Ada", "Bob"} { // whose clock is late
		if err := tick(machine); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// Ada runs the job
	// Bob leaves it to Ada
}
