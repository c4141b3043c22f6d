package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A category may be deleted only while no client files under it.
func Example() {
	ctx := context.Background()
	categories, done := fixture.Collection(ctx, "categories", bson.M{"_id": "friends"})
	defer done()

	locks, err := multilock.New(categories, relations.WritePreferring())
	if err != nil {
		log.Fatal(err)
	}
	file := func(contact string) error {
		return locks.Do(ctx, bson.M{"_id": "friends"}, "read", func(context.Context, *doclock.Lease) error {
			fmt.Println(contact, "is a friend")
			return nil
		})
	}
	if err := file("Ada"); err != nil {
		log.Fatal(err)
	}
	lease, err := locks.Acquire(ctx, bson.M{"_id": "friends"}, "write")
	if err != nil {
		log.Fatal(err)
	}
	// The guard lets this through only while the lock is held; the document's lock is deleted with it.
	if _, err := categories.DeleteOne(ctx, lease.Guard()); err != nil {
		log.Fatal(err)
	}
	if err := file("Bob"); errors.Is(err, doclock.ErrNotFound) {
		fmt.Println("no friends any more")
	}
	// Output:
	// Ada is a friend
	// no friends any more
}

// A waiting entry blocks others and is granted when its turn comes, as
// monglock's assertive lock.
func ExampleLocker_Enqueue() {
	ctx := context.Background()
	categories, done := fixture.Collection(ctx, "categories", bson.M{"_id": "friends"})
	defer done()

	locks, err := multilock.New(categories, relations.WritePreferring())
	if err != nil {
		log.Fatal(err)
	}
	friends := bson.M{"_id": "friends"}
	reader, err := locks.TryAcquire(ctx, friends, "read")
	if err != nil {
		log.Fatal(err)
	}
	ticket, err := locks.Enqueue(ctx, friends, "write")
	if err != nil {
		log.Fatal(err)
	}
	_, err = locks.TryAcquire(ctx, friends, "read")
	fmt.Println("another reader is refused:", errors.Is(err, doclock.ErrConflict))
	_, err = ticket.Confirm(ctx)
	fmt.Println("the writer still waits:", errors.Is(err, doclock.ErrConflict))

	if err := reader.Release(ctx); err != nil {
		log.Fatal(err)
	}
	writer, err := ticket.Confirm(ctx)
	fmt.Println("the writer is let in:", err == nil)
	fmt.Println("released:", writer.Release(ctx) == nil)
	// Output:
	// another reader is refused: true
	// the writer still waits: true
	// the writer is let in: true
	// released: true
}
