package doclock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A stopped process writes late, under the guard: nothing happens to the
// document that others have locked since.
func ExampleLease_Guard() {
	ctx := context.Background()
	server, err := mongotest.Start(ctx, os.Stderr)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Disconnect(ctx)
	db := client.Database(fmt.Sprintf("example_%d", os.Getpid()))
	defer db.Drop(ctx)
	accounts := db.Collection("accounts")
	if _, err := accounts.InsertOne(ctx, bson.M{"_id": "ada", "balance": 10}); err != nil {
		log.Fatal(err)
	}
	locks, err := writelock.New(accounts, doclock.TTL(doclock.MinTTL), doclock.ClockTolerance(0))
	if err != nil {
		log.Fatal(err)
	}
	stopped, err := locks.Acquire(ctx, bson.M{"_id": "ada"})
	if err != nil {
		log.Fatal(err)
	}
	running, err := locks.Acquire(ctx, bson.M{"_id": "ada"}) // waits until the lease has run out
	if err != nil {
		log.Fatal(err)
	}
	late, err := accounts.UpdateOne(ctx, stopped.Guard(), bson.M{"$set": bson.M{"balance": 0}})
	fmt.Println("documents written late:", late.MatchedCount, err)
	fmt.Println("the release tells it:", errors.Is(stopped.Release(ctx), doclock.ErrLost))
	fmt.Println("the tokens increase:", running.Fence() > stopped.Fence())
	_ = running.Release(ctx)
	// Output:
	// documents written late: 0 <nil>
	// the release tells it: true
	// the tokens increase: true
}

// A log at level Debug shows what happens. With the default level it shows what went
// wrong.
func ExampleLogTo() {
	ctx := context.Background()
	server, err := mongotest.Start(ctx, os.Stderr)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Disconnect(ctx)
	db := client.Database(fmt.Sprintf("example_log_%d", os.Getpid()))
	defer db.Drop(ctx)

	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key { // what is another one in each run
			case slog.TimeKey, "collection", "lease", "fence", "waited", "held", "error":
				return slog.Attr{}
			}
			return a
		},
	}))
	ended := make(chan struct{})
	locks, err := writelock.New(db.Collection("orders"), doclock.Upsert(), doclock.Owner("ann"), doclock.LogTo(logger),
		doclock.OnEvent(func(_ context.Context, e doclock.Event) {
			if e.Kind == doclock.EventReleased {
				close(ended)
			}
		}))
	if err != nil {
		log.Fatal(err)
	}
	lease, err := locks.Acquire(ctx, doclock.ID("A-17"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = locks.Acquire(ctx, doclock.ID("A-17"), doclock.MaxWait(0))
	fmt.Println("a conflict:", errors.Is(err, doclock.ErrConflict))
	if err := lease.Release(ctx); err != nil {
		log.Fatal(err)
	}
	<-ended
	// Unordered output:
	// a conflict: true
	// level=DEBUG msg="doclock: granted" document="\"A-17\"" tag=write owner=ann commands=3
	// level=DEBUG msg="doclock: refused" document="\"A-17\"" tag=write owner=ann commands=1 holders=1 behind="\"write\" of ann"
	// level=DEBUG msg="doclock: released" document="\"A-17\"" tag=write owner=ann commands=1
}
