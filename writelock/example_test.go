package writelock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Two workers must not fulfil one order. Whoever comes second finds it done.
func Example() {
	ctx := context.Background()
	orders, err := locktest.New().Collection("orders", bson.M{"_id": "A-17", "state": "paid"})
	check(err)

	locks, err := writelock.New(orders)
	check(err)
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
		check(fulfil(worker))
	}
	// Output:
	// Ada fulfils it
	// Bob finds it fulfilled
}

// Do holds the lock while the function runs. Its error says what is to be undone.
func ExampleLocker_Do() {
	ctx := context.Background()
	mem := locktest.New()
	orders, err := mem.Collection("orders", bson.M{"_id": "A-17"})
	check(err)
	locks, err := writelock.New(orders)
	check(err)

	ship := func(meanwhile func(*doclock.Lease)) {
		err := locks.Do(ctx, doclock.ID("A-17"), func(ctx context.Context, lease *doclock.Lease) error {
			fmt.Println("called the carrier")
			meanwhile(lease)
			return nil
		})
		switch {
		case errors.Is(err, doclock.ErrNotAcquired):
			fmt.Println("nothing was done")
		case errors.Is(err, doclock.ErrLost), errors.Is(err, doclock.ErrOutcomeUnknown):
			fmt.Println("cancelled the carrier")
		default:
			fmt.Println("done:", err)
		}
	}
	ship(func(*doclock.Lease) {})
	ship(func(lease *doclock.Lease) { check(mem.Lose(lease)) }) // somebody else got the lock
	// Output:
	// called the carrier
	// done: <nil>
	// called the carrier
	// cancelled the carrier
}

// Lead calls the function while this process leads, and again after a loss.
func ExampleLocker_Lead() {
	ctx := context.Background()
	mem := locktest.New()
	names, err := mem.Collection("locks")
	check(err)
	locks, err := writelock.New(names, doclock.Upsert())
	check(err)

	term := 0
	check(locks.Lead(ctx, doclock.ID("scheduler"), func(ctx context.Context, lease *doclock.Lease) error {
		term++
		fmt.Println("leads in term", term)
		if term == 1 {
			check(mem.Lose(lease))
			_ = lease.Renew(ctx) // which finds the loss; KeepAlive does so by itself
			<-ctx.Done()
		}
		return ctx.Err() // of term 1: it is dropped
	}))
	// Output:
	// leads in term 1
	// leads in term 2
}

// A lock that is held by another names its holder, in one command.
func ExampleLocker_TryAcquire() {
	ctx := context.Background()
	orders, err := locktest.New().Collection("orders", bson.M{"_id": "A-17"})
	check(err)

	ada, err := writelock.New(orders, doclock.Owner("Ada"))
	check(err)
	bob, err := writelock.New(orders, doclock.Owner("Bob"))
	check(err)
	lease, err := ada.TryAcquire(ctx, bson.M{"_id": "A-17"})
	check(err)
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
	names, err := locktest.New().Collection("locks")
	check(err)

	locks, err := writelock.New(names, doclock.Upsert())
	check(err)
	check(locks.Do(ctx, doclock.ID("monthly report"), func(context.Context, *doclock.Lease) error {
		fmt.Println("one report at a time")
		return nil
	}))
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
	jobs, err := locktest.New().Collection("orders", bson.M{"_id": "nightly report"})
	check(err)

	locks, err := writelock.New(jobs)
	check(err)
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
		check(tick(machine))
	}
	// Output:
	// Ada runs the job
	// Bob leaves it to Ada
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
