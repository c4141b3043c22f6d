package doclock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A stopped process writes late, under the guard: nothing happens to the
// document that others have locked since.
func ExampleLease_guard() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	accounts := mem.Collection("accounts", bson.M{"_id": "ada", "balance": 10})
	locks, err := writelock.New(accounts)
	check(err)
	stopped, err := locks.Acquire(ctx, bson.M{"_id": "ada"})
	check(err)
	mem.Advance(time.Minute)
	running, err := locks.Acquire(ctx, bson.M{"_id": "ada"})
	check(err)
	late, err := accounts.UpdateOne(ctx, stopped.Guard(), bson.M{"$set": bson.M{"balance": 0}})
	fmt.Println("documents written late:", late.MatchedCount, err)
	fmt.Println("the release tells it:", errors.Is(stopped.Release(ctx), doclock.ErrLost))
	fmt.Println("the tokens increase:", running.Fence() > stopped.Fence())
	check(running.Release(ctx))
	// Output:
	// documents written late: 0 <nil>
	// the release tells it: true
	// the tokens increase: true
}

// A log at level Debug shows what happens. With the default level it shows what went
// wrong.
func ExampleLogTo() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders")

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
	locks, err := writelock.New(orders, doclock.Upsert(), doclock.Owner("ann"), doclock.LogTo(logger),
		doclock.OnEvent(func(_ context.Context, e doclock.Event) {
			if e.Kind == doclock.EventReleased {
				close(ended)
			}
		}))
	check(err)
	lease, err := locks.Acquire(ctx, doclock.ID("A-17"))
	check(err)
	_, err = locks.Acquire(ctx, doclock.ID("A-17"), doclock.MaxWait(0))
	fmt.Println("a conflict:", errors.Is(err, doclock.ErrConflict))
	check(lease.Release(ctx))
	<-ended
	// Unordered output:
	// a conflict: true
	// level=DEBUG msg="doclock: granted" document="\"A-17\"" tag=write owner=ann commands=3
	// level=DEBUG msg="doclock: not granted" how=refused document="\"A-17\"" tag=write owner=ann commands=1 holders=1 behind="\"write\" of \"ann\""
	// level=DEBUG msg="doclock: released" document="\"A-17\"" tag=write owner=ann commands=1
}
