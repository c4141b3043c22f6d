// Command leader has three candidates campaign for a named lock. One leads at a
// time; when it steps down, another one leads.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
	if err != nil { // it may have the URI's password in it
		log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017")
	}
	check(client.Ping(ctx, nil)) // Lead would campaign until the server can be reached
	names := client.Database("jobs").Collection("locks")
	term, last := 0, int64(0) // no mutex: only the leader uses them
	var candidates sync.WaitGroup
	for _, name := range []string{"ann", "bob", "cid"} {
		locks, err := writelock.New(names, doclock.Owner(name), doclock.Upsert())
		check(err)
		candidates.Go(func() {
			// ctx ends when the lead is lost. To return is to step down.
			check(locks.Lead(ctx, doclock.ID("leader"), func(ctx context.Context, lease doclock.Lease) error {
				term++
				fmt.Println("term", term, "has a greater token than the one before:", lease.Fence() > last)
				last = lease.Fence()
				return ctx.Err()
			}))
		})
	}
	candidates.Wait()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
