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
	uri := os.Getenv("MONGODB_URI")
	if uri == "" {
		log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	check(err)
	orders := client.Database("shop").Collection("orders")
	locks, err := writelock.New(orders, doclock.Upsert())
	check(err)

	var order struct{ Prints int }
	lease, err := locks.Acquire(ctx, bson.M{"_id": "A-17"}, doclock.Into(&order)) // locks, and reads
	check(err)
	check(lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"prints": order.Prints + 1}})) // writes, and unlocks
	fmt.Println("prints:", order.Prints+1)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
