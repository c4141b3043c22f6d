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
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A read-modify-write in two commands: the first one locks and reads, the second one
// writes and releases.
func ExampleInto() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17", "prints": 2})
	locks, err := writelock.New(orders)
	check(err)

	var order struct{ Prints int }
	lease, err := locks.Acquire(ctx, doclock.ID("A-17"), doclock.Into(&order))
	check(err)
	check(lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"prints": order.Prints + 1}}))
	check(orders.FindOne(ctx, doclock.ID("A-17")).Decode(&order))
	fmt.Println("prints:", order.Prints)
	// Output:
	// prints: 3
}

// Workers claim jobs. One that is locked is passed over.
func ExampleSkipLocked() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	jobs := mem.Collection("jobs",
		bson.M{"_id": "tidy up", "priority": 1}, bson.M{"_id": "send the invoice", "priority": 9}, bson.M{"_id": "send the news", "priority": 5})
	locks, err := writelock.New(jobs)
	check(err)

	byPriority := doclock.Sort(bson.D{{Key: "priority", Value: -1}})
	for {
		var job struct {
			ID string `bson:"_id"`
		}
		_, err := locks.TryAcquire(ctx, bson.D{}, doclock.SkipLocked(), byPriority, doclock.Into(&job))
		if errors.Is(err, doclock.ErrNotFound) {
			fmt.Println("none is free")
			return
		}
		check(err)
		fmt.Println("claimed:", job.ID)
	}
	// Output:
	// claimed: send the invoice
	// claimed: send the news
	// claimed: tidy up
	// none is free
}

// MaxWait bounds the wait for the lock, and not the work under it.
func ExampleMaxWait() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17"})
	ada, err := writelock.New(orders, doclock.Owner("Ada"))
	check(err)
	locks, err := writelock.New(orders)
	check(err)
	_, err = ada.TryAcquire(ctx, doclock.ID("A-17"))
	check(err)

	err = locks.Do(ctx, doclock.ID("A-17"), func(context.Context, doclock.Lease) error {
		fmt.Println("not printed")
		return nil
	}, doclock.MaxWait(0)) // or some seconds
	var conflict *doclock.ConflictError
	if errors.As(err, &conflict) {
		fmt.Println("given up: held by", conflict.Holders[0].Owner)
	}
	// Output:
	// given up: held by Ada
}

// The readers of one process share an entry: the second one sends nothing.
func ExampleShareInProcess() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	categories := mem.Collection("categories", bson.M{"_id": "friends"})
	locks, err := multilock.New(categories, relations.WritePreferring(), doclock.ShareInProcess("read"))
	check(err)

	one, err := locks.Acquire(ctx, doclock.ID("friends"), "read")
	check(err)
	two, err := locks.Acquire(ctx, doclock.ID("friends"), "read")
	check(err)
	fmt.Println("one entry:", one.ID() == two.ID())
	check(one.Release(ctx))
	fmt.Println("the other reader still has it:", two.Err() == nil)
	check(two.Release(ctx))
	// Output:
	// one entry: true
	// the other reader still has it: true
}

// OnEvent calls a function for what happens to the locks: here it counts the losses.
func ExampleOnEvent() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17"})
	lost := make(chan doclock.Event, 1)
	locks, err := writelock.New(orders, doclock.OnEvent(func(_ context.Context, e doclock.Event) {
		if e.Kind == doclock.EventLost {
			lost <- e
		}
	}))
	check(err)
	lease, err := locks.Acquire(ctx, doclock.ID("A-17"))
	check(err)
	check(mem.Lose(lease))
	fmt.Println("lost:", errors.Is(lease.Release(ctx), doclock.ErrLost))
	e := <-lost
	fmt.Println(e.Kind, e.Collection, e.DocumentID, e.Tag)
	// Output:
	// lost: true
	// lost test.orders "A-17" write
}

// A program looks at its server once, when it starts.
func ExampleCheckServer() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders")

	server, err := doclock.CheckServer(ctx, orders)
	check(err) // doclock.ErrUnsupportedServer
	locks, err := writelock.New(orders, doclock.ClockTolerance(max(500*time.Millisecond, 2*server.ClockSkew)))
	check(err)
	check(locks.Close(ctx))
	fmt.Println(server.Kind, "with a clock skew of", server.ClockSkew)
	// Output:
	// standalone with a clock skew of 0s
}

// The lease of a job that hangs ends, although it is renewed.
func ExampleHoldAtMost() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	reports := mem.Collection("reports", bson.M{"_id": "sales"})
	locks, err := writelock.New(reports, doclock.HoldAtMost(5*time.Second))
	check(err)
	hangs, err := locks.Acquire(ctx, doclock.ID("sales"))
	check(err)
	check(hangs.Renew(ctx))
	fmt.Println("it has 5 s at most:", hangs.Remaining() <= 5*time.Second)
	mem.Advance(6 * time.Second)
	next, err := locks.TryAcquire(ctx, doclock.ID("sales"))
	check(err)
	fmt.Println("the next one has it:", next.Err() == nil)
	fmt.Println("the job that hung is refused:", errors.Is(hangs.Release(ctx), doclock.ErrLost))
	check(next.Release(ctx))
	// Output:
	// it has 5 s at most: true
	// the next one has it: true
	// the job that hung is refused: true
}

// The error of a refused acquire names the holder, and says how long it may hold the lock.
func ExampleConflictError() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17"})
	locks, err := writelock.New(orders, doclock.TTL(30*time.Second))
	check(err)
	anns, err := locks.Acquire(ctx, doclock.ID("A-17"), doclock.Owner("ann"))
	check(err)

	_, err = locks.TryAcquire(ctx, doclock.ID("A-17"), doclock.Owner("bob"))
	var conflict *doclock.ConflictError
	if errors.As(err, &conflict) {
		fmt.Println("held by", conflict.Holders[0].Owner)
		fmt.Println("for half a minute at most:", conflict.RetryAfter <= 31*time.Second)
	}
	check(anns.Release(ctx))
	// Output:
	// held by ann
	// for half a minute at most: true
}

// The documents have a field "lock" of their own, so the lock has another name.
func ExampleField() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	doors := mem.Collection("doors", bson.M{"_id": "front", "lock": "bolt"})
	locks, err := writelock.New(doors)
	check(err)
	_, err = locks.Acquire(ctx, doclock.ID("front"))
	fmt.Println("refused:", errors.Is(err, doclock.ErrForeignLock))

	locks, err = writelock.New(doors, doclock.Field("doclock"))
	check(err)
	lease, err := locks.Acquire(ctx, doclock.ID("front"))
	check(err)
	var door struct{ Lock string }
	check(doors.FindOne(ctx, doclock.ID("front")).Decode(&door))
	fmt.Println("the door's own lock:", door.Lock)
	check(lease.Release(ctx))
	// Output:
	// refused: true
	// the door's own lock: bolt
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
