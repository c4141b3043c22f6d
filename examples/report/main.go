// Command report makes a report under a lock with a name. Who asks for the
// report meanwhile is told who makes it.
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

// report makes the month's report, or returns who makes it already. The
// collection holds nothing but locks: the first who needs one by a name inserts it.
func report(ctx context.Context, locks *writelock.Locker, month string, work func(context.Context) error) (by string, err error) {
	err = locks.Do(ctx, doclock.ID("report "+month), func(ctx context.Context, _ *doclock.Lease) error {
		return work(ctx)
	}, doclock.MaxWait(0)) // without MaxWait(0), it would wait
	if conflict := (*doclock.ConflictError)(nil); errors.As(err, &conflict) {
		return conflict.Holders[0].Owner, nil
	}
	return "", err
}

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

	_, err = report(ctx, ada, "2026-11", func(ctx context.Context) error {
		by, err := report(ctx, bob, "2026-11", makeReport) // asks while Ada's is being made
		check(err)
		fmt.Println("Bob asks: the report is being made by", by)
		return makeReport(ctx)
	})
	check(err)
}

func makeReport(context.Context) error {
	fmt.Println("the report is made")
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
