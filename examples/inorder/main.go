// Command inorder has two workers do the steps of an order one after the other, in
// the order of their numbers. The function to copy is in order.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

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
	scratch := client.Database("inorder-" + bson.NewObjectID().Hex()) // of this run's own
	defer func() { check(scratch.Drop(ctx)) }()
	steps := scratch.Collection("steps")
	_, err = steps.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "order", Value: 1}, {Key: "done", Value: 1}, {Key: "number", Value: 1}}})
	check(err)
	for i, name := range []string{"pay", "pack", "send"} {
		_, err := steps.InsertOne(ctx, bson.M{"order": "A-17", "number": i + 1, "name": name, "done": false})
		check(err)
	}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			locks, err := writelock.New(steps)
			check(err)
			for open := int64(1); open > 0; {
				if err := next(ctx, locks, "A-17", work); !errors.Is(err, doclock.ErrNotFound) {
					check(err)
				}
				open, err = steps.CountDocuments(ctx, bson.M{"done": false})
				check(err)
			}
		})
	}
	workers.Wait()
}

// work stands for what a step is about.
func work(_ context.Context, s step) error {
	time.Sleep(50 * time.Millisecond)
	fmt.Println(s.Number, s.Name)
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
