package doclock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

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
