package writelock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// An order is packed once: who gets the lock later reads what the one before wrote.
func Example() {
	ctx := context.Background()
	mem := locktest.Start() // in a program a collection of your MongoDB
	defer mem.Close()
	locks, err := writelock.New(mem.Collection("orders", bson.M{"_id": "A-17", "state": "paid"}))
	check(err)

	for range 2 {
		var order struct{ State string }
		check(locks.Do(ctx, doclock.ID("A-17"), func(ctx context.Context, lease doclock.Lease) error {
			if order.State != "paid" {
				fmt.Println("the order is", order.State)
				return nil
			}
			fmt.Println("packing the order")
			return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"state": "packed"}})
		}, doclock.Into(&order)))
	}
	// Output:
	// packing the order
	// the order is packed
}

// Do holds the lock while the function runs. Its error says what is to be undone.
func ExampleLocker_Do() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17"})
	locks, err := writelock.New(orders)
	check(err)

	ship := func(meanwhile func(doclock.Lease)) {
		err := locks.Do(ctx, doclock.ID("A-17"), func(ctx context.Context, lease doclock.Lease) error {
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
	ship(func(doclock.Lease) {})
	ship(func(lease doclock.Lease) { check(mem.Lose(lease)) }) // somebody else got the lock
	// Output:
	// called the carrier
	// done: <nil>
	// called the carrier
	// cancelled the carrier
}

// Lead calls the function while this process leads, and again after a loss.
func ExampleLocker_Lead() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	names := mem.Collection("locks")
	locks, err := writelock.New(names, doclock.Upsert())
	check(err)

	term := 0
	check(locks.Lead(ctx, doclock.ID("scheduler"), func(ctx context.Context, lease doclock.Lease) error {
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
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17"})

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

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
