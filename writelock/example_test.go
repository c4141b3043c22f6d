package writelock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Two workers must not fulfil one order. Whoever comes second finds it done.
func Example() {
	ctx := context.Background()
	orders, done := collection(ctx, bson.M{"_id": "A-17", "state": "paid"})
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
	orders, done := collection(ctx, bson.M{"_id": "A-17"})
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
	orders, done := collection(ctx, bson.M{"_id": "A-17"})
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

// collection is one with this document, on the server that the tests run on.
func collection(ctx context.Context, doc any) (*mongo.Collection, func()) {
	server, err := mongotest.Start(ctx, os.Stderr)
	if err != nil {
		log.Fatal(err)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()))
	if err != nil {
		log.Fatal(err)
	}
	db := client.Database(fmt.Sprintf("example_%d", os.Getpid()))
	if _, err := db.Collection("orders").InsertOne(ctx, doc); err != nil {
		log.Fatal(err)
	}
	return db.Collection("orders"), func() {
		_ = db.Drop(ctx)
		_ = client.Disconnect(ctx)
		_ = server.Close()
	}
}
