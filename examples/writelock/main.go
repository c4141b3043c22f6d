// Command writelock counts an order's prints, however many print at once.
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
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
	if err != nil { // it may have the URI's password in it
		log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017")
	}
	orders := client.Database("shop").Collection("orders")
	locks, err := writelock.New(orders, doclock.Upsert())
	check(err)

	var order struct{ Prints int }
	err = locks.Do(ctx, doclock.ID("A-17"), func(ctx context.Context, lease doclock.Lease) error {
		printOut(ctx, order.Prints+1) // takes its time: the lock is renewed
		return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"prints": order.Prints + 1}})
	}, doclock.Into(&order)) // the document, read by the command that locks it
	check(err)
	fmt.Println("prints:", order.Prints+1)
}

// printOut stands for the printer.
func printOut(context.Context, int) {}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
