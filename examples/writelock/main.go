// Command writelock packs an order once, however many processes try.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
	if err != nil { // it may have the URI's password in it
		log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017")
	}
	ctx := context.Background()
	orders := client.Database("shop").Collection("orders")
	_, err = orders.InsertOne(ctx, bson.M{"_id": "A-17", "state": "paid"})
	if !mongo.IsDuplicateKeyError(err) { // an earlier run has inserted it
		check(err)
	}

	locks, err := writelock.New(orders) // one for the life of the program
	check(err)
	var order struct{ State string }
	err = locks.Do(ctx, doclock.ID("A-17"), func(ctx context.Context, lease doclock.Lease) error {
		if order.State != "paid" {
			fmt.Println("the order is", order.State) // by another process, while this one waited
			return nil
		}
		fmt.Println("packing the order") // may take minutes: the lock is renewed
		return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"state": "packed"}})
	}, doclock.Into(&order)) // read by the command that locks it
	check(err)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
