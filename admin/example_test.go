package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// An operator sees who holds an order, and breaks the lock.
func Example() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17"})

	// Somewhere a program holds the order's lock.
	locks, err := writelock.New(orders, doclock.Owner("web-3/1/api"))
	check(err)
	lease, err := locks.TryAcquire(ctx, doclock.ID("A-17"))
	check(err)

	lock, err := admin.Inspect(ctx, orders, doclock.ID("A-17"))
	check(err)
	for _, e := range lock.Entries {
		fmt.Println(e.Tag, "is", e.State, "by", e.Owner)
		gone, err := admin.Break(ctx, orders, e)
		check(err)
		fmt.Println("broken:", gone.ID == lease.ID())
	}
	err = lease.Update(ctx, bson.M{"$set": bson.M{"late": true}})
	fmt.Println("the holder is refused:", errors.Is(err, doclock.ErrLost))
	// Output:
	// write is held by web-3/1/api
	// broken: true
	// the holder is refused: true
}

// A list of orders shows who has which. It is one query.
func ExampleLockOf() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": 1, "customer": "Acme"}, bson.M{"_id": 2, "customer": "Acme"})
	locks, err := writelock.New(orders, doclock.Owner("Ann"))
	check(err)
	_, err = locks.TryAcquire(ctx, doclock.ID(2))
	check(err)

	fields := append(admin.Projection(), bson.E{Key: "customer", Value: 1})
	found, err := orders.Find(ctx, bson.M{}, options.Find().SetProjection(fields).SetSort(bson.M{"_id": 1}).SetLimit(50))
	check(err)
	for found.Next(ctx) {
		var order struct {
			Number   int `bson:"_id"`
			Customer string
		}
		check(found.Decode(&order))
		lock, err := admin.LockOf(found.Current)
		check(err)
		by := "nobody"
		for _, e := range lock.Entries {
			if !e.Expired() {
				by = e.Owner
			}
		}
		fmt.Println("order", order.Number, "of", order.Customer, "is edited by", by)
	}
	check(found.Err())
	// Output:
	// order 1 of Acme is edited by nobody
	// order 2 of Acme is edited by Ann
}

// What the programs of a machine left behind, over a whole collection.
func ExampleRemove() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17"}, bson.M{"_id": "A-18"})
	for id, owner := range map[string]string{"A-17": "web-3/1/api", "A-18": "web-30/1/api"} {
		locks, err := writelock.New(orders, doclock.Owner(owner))
		check(err)
		_, err = locks.TryAcquire(ctx, doclock.ID(id))
		check(err)
	}

	count, err := admin.Remove(ctx, orders, admin.Query{OwnerPrefix: "web-3/"})
	check(err)
	fmt.Println("removed:", count.Removed)
	for e, err := range admin.Entries(ctx, orders, admin.Query{}) {
		check(err)
		fmt.Println("left:", e.Owner) // fmt.Println(e) shows the whole entry
	}
	// Output:
	// removed: 1
	// left: web-30/1/api
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
