package doclock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A holder is stopped, and its lease expires. Another program acquires the lock. The write of
// the first one comes too late, and is refused.
func Example() {
	ctx := context.Background()
	mem := locktest.Start() // in a program a collection of your MongoDB
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17"})
	a, err := writelock.New(orders, doclock.Owner("A"))
	check(err)
	b, err := writelock.New(orders, doclock.Owner("B"))
	check(err)

	stopped, err := a.Acquire(ctx, doclock.ID("A-17"))
	check(err)
	_, err = b.TryAcquire(ctx, doclock.ID("A-17"))
	var conflict *doclock.ConflictError
	if errors.As(err, &conflict) {
		fmt.Println("held by", conflict.Holders[0].Owner)
	}
	mem.Advance(11 * time.Second) // the server's clock goes on while A stands still
	next, err := b.TryAcquire(ctx, doclock.ID("A-17"))
	check(err)
	err = stopped.Update(ctx, bson.M{"$set": bson.M{"state": "packed by A"}})
	fmt.Println("A's late write is refused:", errors.Is(err, doclock.ErrLost))
	check(next.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"state": "packed by B"}}))
	// Output:
	// held by A
	// A's late write is refused: true
}

// A write of a lease that was lost changes nothing.
func ExampleLease_update() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17"})
	locks, err := writelock.New(orders)
	check(err)

	lease, err := locks.Acquire(ctx, doclock.ID("A-17"))
	check(err)
	check(lease.Update(ctx, bson.M{"$set": bson.M{"state": "packed"}}))
	check(mem.Lose(lease)) // as if the program had been stopped, and another one had the lock
	err = lease.Update(ctx, bson.M{"$set": bson.M{"state": "sent"}})
	fmt.Println("refused:", errors.Is(err, doclock.ErrLost))
	var order struct{ State string }
	check(orders.FindOne(ctx, doclock.ID("A-17")).Decode(&order))
	fmt.Println("state:", order.State)
	// Output:
	// refused: true
	// state: packed
}

// The lock is deleted with its document. Release, called after it, has the same
// answer.
func ExampleLease_delete() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17"})
	locks, err := writelock.New(orders)
	check(err)

	lease, err := locks.Acquire(ctx, doclock.ID("A-17"))
	check(err)
	check(lease.Delete(ctx))
	check(lease.Release(ctx))
	_, err = locks.TryAcquire(ctx, doclock.ID("A-17"))
	fmt.Println("gone:", errors.Is(err, doclock.ErrNotFound))
	// Output:
	// gone: true
}

// A lock is kept from one request to the next, in any process that has the token.
func ExampleLease_detach() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	pages := mem.Collection("pages", bson.M{"_id": "home"})
	one, err := writelock.New(pages)
	check(err)
	other, err := writelock.New(pages) // in another process
	check(err)

	lease, err := one.TryAcquire(ctx, doclock.ID("home"))
	check(err)
	token, err := lease.Detach(ctx)
	check(err)
	check(other.Touch(ctx, doclock.ID("home"), token)) // the form is still open

	_, err = other.TryAcquire(ctx, doclock.ID("home"))
	fmt.Println("others are kept out:", errors.Is(err, doclock.ErrConflict))
	lease, err = other.Resume(ctx, doclock.ID("home"), token)
	check(err)
	check(lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"text": "hello"}}))
	_, err = one.Resume(ctx, doclock.ID("home"), token)
	fmt.Println("the token is over:", errors.Is(err, doclock.ErrLost))
	// Output:
	// others are kept out: true
	// the token is over: true
}

// KeepAlive renews a lease in the background. Its context ends with the lease.
func ExampleLease_keepAlive() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17"})
	locks, err := writelock.New(orders)
	check(err)

	lease, err := locks.Acquire(ctx, doclock.ID("A-17"))
	check(err)
	working := lease.KeepAlive(ctx)
	fmt.Println("while it is held:", working.Err())
	check(lease.Release(context.WithoutCancel(working)))
	<-working.Done()
	fmt.Println("after the release:", context.Cause(working))
	// Output:
	// while it is held: <nil>
	// after the release: doclock: lock released: "write" on document "A-17" of test.orders
}

// A writer that has changed a category goes on as a reader. Other readers come in,
// and no other writer was there in between.
func ExampleLease_convert() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	categories := mem.Collection("categories", bson.M{"_id": "friends"})
	locks, err := multilock.New(categories, relations.WritePreferring())
	check(err)

	writer, err := locks.Acquire(ctx, doclock.ID("friends"), "write")
	check(err)
	check(writer.Update(ctx, bson.M{"$set": bson.M{"name": "Friends"}}))

	reader, err := writer.Convert(ctx, "read")
	check(err)
	working := reader.KeepAlive(ctx) // the writer's own has ended

	another, err := locks.TryAcquire(ctx, doclock.ID("friends"), "read")
	check(err)
	fmt.Println("tags:", reader.Tag(), another.Tag())
	fmt.Println("the work goes on:", working.Err() == nil)
	fmt.Println("the token is greater:", reader.Fence() > writer.Fence())
	check(another.Release(ctx))
	check(reader.Release(ctx))
	// Output:
	// tags: read read
	// the work goes on: true
	// the token is greater: true
}

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

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
