// Command report makes a report under a lock with a name. Another process that
// asks for the report meanwhile is told the owner of the lock.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
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
	collection := client.Database("accounts").Collection("locks")
	ada, err := writelock.New(collection, doclock.Upsert(), doclock.Owner("Ada"))
	check(err)
	bob, err := writelock.New(collection, doclock.Upsert(), doclock.Owner("Bob"))
	check(err)

	_, err = report(ctx, ada, "2026-11", func(ctx context.Context, lease *doclock.Lease) error {
		by, err := report(ctx, bob, "2026-11", makeReport) // asks while Ada's is being made
		check(err)
		fmt.Println("Bob asks: the report is being made by", by)
		return makeReport(ctx, lease)
	})
	check(err)
}

// report makes the month's report, or returns who makes it already. The
// collection holds nothing but locks: whoever needs a new name inserts it.
func report(ctx context.Context, locks *writelock.Locker, month string, work func(context.Context, *doclock.Lease) error) (by string, err error) {
	var conflict *doclock.ConflictError
	err = locks.Do(ctx, doclock.ID("report "+month), work, doclock.MaxWait(0)) // one try
	if errors.As(err, &conflict) {
		return conflict.Holders[0].Owner, nil
	}
	return "", err
}

func makeReport(context.Context, *doclock.Lease) error {
	fmt.Println("the report is made")
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
