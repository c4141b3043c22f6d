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
	client, _ := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
	orders := client.Database("shop").Collection("orders")
	locks, _ := writelock.New(orders, doclock.Upsert())

	var order struct{ Prints int }
	lease, err := locks.Acquire(ctx, bson.M{"_id": "A-17"}, doclock.Into(&order)) // locks, and reads
	if err != nil {
		log.Fatal(err)
	}
	err = lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"prints": order.Prints + 1}}) // writes, and unlocks
	fmt.Println("prints:", order.Prints+1, "error:", err)
}
