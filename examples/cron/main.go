// Command cron runs a job once per tick, however many machines start it and
// however short it is.
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

// between is the time between two ticks. The clocks of the machines may differ by
// half of it: a machine that comes that late finds the lock held, and the next
// tick finds it free.
const between = 4 * time.Second

// tick is what each machine's timer calls.
func tick(ctx context.Context, locks *writelock.Locker, job func(context.Context, *doclock.Lease) error) error {
	err := locks.Do(ctx, doclock.ID("clean up"), job, doclock.MaxWait(0), doclock.HoldAtLeast(between/2))
	if errors.Is(err, doclock.ErrConflict) {
		return nil // another machine runs it, or has run it
	}
	return err
}

func main() {
	ctx := context.Background()
	uri := os.Getenv("MONGODB_URI")
	if uri == "" {
		log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	check(err)
	scratch := client.Database("cron-" + bson.NewObjectID().Hex()) // of this run's own
	defer func() { check(scratch.Drop(ctx)) }()
	locks, err := writelock.New(scratch.Collection("locks"), doclock.Upsert())
	check(err)

	runs := 0
	cleanUp := func(context.Context, *doclock.Lease) error { // is done at once
		runs++
		return nil
	}
	for n := range 2 {
		time.Sleep(time.Duration(n) * between)
		for range 3 { // the machines come one after the other
			check(tick(ctx, locks, cleanUp))
		}
		fmt.Printf("tick %d: 3 machines came, runs so far: %d\n", n+1, runs)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
