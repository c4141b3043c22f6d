package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A category may be deleted only while no client files under it.
func Example() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	categories := mem.Collection("categories", bson.M{"_id": "friends"})

	locks, err := multilock.New(categories, relations.WritePreferring())
	check(err)
	file := func(contact string) error {
		return locks.Do(ctx, bson.M{"_id": "friends"}, "read", func(context.Context, doclock.Lease) error {
			fmt.Println(contact, "is a friend")
			return nil
		})
	}
	check(file("Ada"))
	lease, err := locks.Acquire(ctx, bson.M{"_id": "friends"}, "write")
	check(err)
	check(lease.Delete(ctx)) // refused if the lock was lost; the lock is deleted with the document
	if err := file("Bob"); errors.Is(err, doclock.ErrNotFound) {
		fmt.Println("no friends any more")
	}
	// Output:
	// Ada is a friend
	// no friends any more
}

// A waiting entry blocks others and is granted when its turn comes, as
// monglock's assertive lock.
func ExampleLocker_Enqueue() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	categories := mem.Collection("categories", bson.M{"_id": "friends"})

	locks, err := multilock.New(categories, relations.WritePreferring())
	check(err)
	friends := bson.M{"_id": "friends"}
	reader, err := locks.TryAcquire(ctx, friends, "read")
	check(err)
	ticket, err := locks.Enqueue(ctx, friends, "write")
	check(err)
	_, err = locks.TryAcquire(ctx, friends, "read")
	fmt.Println("another reader is refused:", errors.Is(err, doclock.ErrConflict))
	_, err = ticket.Confirm(ctx)
	fmt.Println("the writer still waits:", errors.Is(err, doclock.ErrConflict))

	check(reader.Release(ctx))
	writer, err := ticket.Confirm(ctx)
	fmt.Println("the writer is granted:", err == nil)
	fmt.Println("released:", writer.Release(ctx) == nil)
	// Output:
	// another reader is refused: true
	// the writer still waits: true
	// the writer is granted: true
	// released: true
}

// Two accounts are locked together, in an order that all programs have. Both are read
// by the commands that lock them.
func ExampleDoAll() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	accounts := mem.Collection("accounts", bson.M{"_id": "ann", "balance": 10}, bson.M{"_id": "bob", "balance": 0})
	locks, err := multilock.New(accounts, relations.Exclusive())
	check(err)

	var ann, bob struct{ Balance int }
	check(multilock.DoAll(ctx, func(ctx context.Context, leases multilock.Leases) error {
		// These are two writes: examples/transfer says how to survive a death between them.
		if err := leases[0].Update(ctx, bson.M{"$set": bson.M{"balance": ann.Balance - 5}}); err != nil {
			return err
		}
		return leases[1].Update(ctx, bson.M{"$set": bson.M{"balance": bob.Balance + 5}})
	}, locks.Want(doclock.ID("ann"), "write", doclock.Into(&ann)), locks.Want(doclock.ID("bob"), "write", doclock.Into(&bob))))
	check(accounts.FindOne(ctx, doclock.ID("bob")).Decode(&bob))
	fmt.Println("bob has", bob.Balance)
	// Output:
	// bob has 5
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Two accounts are held until both leases are released. While one can't be had, none is.
func ExampleAcquireAll() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	accounts := mem.Collection("accounts", bson.M{"_id": "ann"}, bson.M{"_id": "bob"})
	locks, err := multilock.New(accounts, relations.Fair())
	check(err)
	bobs, err := locks.TryAcquire(ctx, doclock.ID("bob"), "write")
	check(err)
	both := []multilock.Want{locks.Want(doclock.ID("ann"), "write", doclock.MaxWait(0)), locks.Want(doclock.ID("bob"), "write", doclock.MaxWait(0))}
	_, err = multilock.AcquireAll(ctx, both...)
	fmt.Println("a conflict:", errors.Is(err, doclock.ErrConflict))
	check(bobs.Release(ctx))

	leases, err := multilock.AcquireAll(ctx, both...)
	check(err)
	fmt.Println("held:", len(leases))
	check(leases.Release(ctx))
	// Output:
	// a conflict: true
	// held: 2
}

// A customer's server bears three calls at a time, from all programs together.
func Example_threeAtATime() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	customers := mem.Collection("customers", bson.M{"_id": "Acme"})
	locks, err := multilock.New(customers, relations.Semaphore(3))
	check(err)

	var running, ended atomic.Int32
	call := func(context.Context, string) error { // stands for a call to the customer's server
		if n := running.Add(1); n > 3 {
			return fmt.Errorf("%d calls at a time", n)
		}
		ended.Add(1)
		running.Add(-1)
		return nil
	}
	callInTurn := func(customer string) error {
		return locks.Do(ctx, doclock.ID(customer), "slot", func(ctx context.Context, _ doclock.Lease) error {
			return call(ctx, customer)
		})
	}
	var calls sync.WaitGroup
	for range 12 {
		calls.Go(func() { check(callInTurn("Acme")) })
	}
	calls.Wait()
	fmt.Println("calls:", ended.Load())
	// Output:
	// calls: 12
}
