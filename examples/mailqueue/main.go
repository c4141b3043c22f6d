// Command mailqueue sends letters, and deletes those that were sent. A letter that
// could not be sent is tried again later. The functions to copy are in queue.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
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
	scratch := client.Database("mailqueue-" + bson.NewObjectID().Hex()) // of this run's own
	defer func() { check(scratch.Drop(ctx)) }()
	letters := scratch.Collection("letters")
	_, err = letters.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "due", Value: 1}}})
	check(err)
	now := time.Now()
	for i, to := range []string{"Ann", "Bob", "Eve"} {
		_, err := letters.InsertOne(ctx, bson.M{"to": to, "due": now.Add(time.Duration(i-3) * time.Second)})
		check(err)
	}
	locks, err := writelock.New(letters)
	check(err)
	for left := int64(3); left > 0; {
		err := next(ctx, locks, send)
		if errors.Is(err, doclock.ErrNotFound) {
			time.Sleep(100 * time.Millisecond) // none is due
			continue
		}
		check(err)
		left, err = letters.CountDocuments(ctx, bson.M{})
		check(err)
	}
	fmt.Println("all are sent")
}

// send stands for the mail server, which is busy when the first letter to Bob comes.
func send(_ context.Context, l letter) error {
	if l.To == "Bob" && l.Tries == 0 {
		fmt.Println("to Bob: the server is busy")
		return errors.New("the server is busy")
	}
	fmt.Printf("to %s: sent\n", l.To)
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
