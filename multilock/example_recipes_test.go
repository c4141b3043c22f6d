package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// docs/jobs.md leads to these examples, and explains most.

// Of one customer's jobs two run at a time, on all machines together, and those of others go past.
func Example_jobsOfACustomer() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	jobs := mem.Collection("jobs",
		bson.M{"_id": 1, "customer": "Acme", "due": mem.Now()}, bson.M{"_id": 2, "customer": "Acme", "due": mem.Now()},
		bson.M{"_id": 3, "customer": "Acme", "due": mem.Now()}, bson.M{"_id": 4, "customer": "Bell", "due": mem.Now()})
	customers := mem.Collection("customers", bson.M{"_id": "Acme"}, bson.M{"_id": "Bell"})
	queue, err := multilock.New(jobs, relations.Exclusive())
	check(err)
	slots, err := multilock.New(customers, relations.Semaphore(2))
	check(err)

	now := mem.Now // a program takes time.Now
	next := func(work func(context.Context) error) error {
		var job struct {
			ID       int `bson:"_id"`
			Customer string
		}
		due := bson.M{"due": bson.M{"$lte": now()}}
		return queue.Do(ctx, due, "write", func(ctx context.Context, lease doclock.Lease) error {
			err := slots.Do(ctx, doclock.ID(job.Customer), "slot", func(ctx context.Context, _ doclock.Lease) error {
				fmt.Println("job", job.ID, "of", job.Customer)
				return work(ctx)
			}, doclock.MaxWait(0))
			if errors.Is(err, doclock.ErrConflict) { // its customer has two already
				return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"due": now().Add(5 * time.Second)}})
			}
			if err != nil {
				return err
			}
			return lease.Delete(ctx)
		}, doclock.SkipLocked(), doclock.Sort(bson.D{{Key: "_id", Value: 1}}), doclock.Into(&job), doclock.MaxWait(0))
	}
	short := func(ctx context.Context) error { return ctx.Err() }
	check(next(func(context.Context) error { // while the first runs, other workers come
		return next(func(context.Context) error {
			return errors.Join(next(nil), next(short)) // the first of these puts off job 3
		})
	}))
	mem.Advance(5 * time.Second)
	check(next(short))
	// Output:
	// job 1 of Acme
	// job 2 of Acme
	// job 4 of Bell
	// job 3 of Acme
}

// A job needs any two of three machines, or none. Wait some random time before a further try: two jobs may each hold
// one of the last two. AcquireAll is for certain machines.
func Example_machines() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	machines := mem.Collection("machines", bson.M{"_id": "m1", "gpu": true}, bson.M{"_id": "m2", "gpu": true}, bson.M{"_id": "m3", "gpu": true})
	locks, err := multilock.New(machines, relations.Exclusive())
	check(err)

	errBusy := errors.New("they are busy")
	take := func(n int) (multilock.Leases, error) {
		leases, err := locks.AcquireBatch(ctx, bson.M{"gpu": true}, "write", n, doclock.MaxWait(0))
		if errors.Is(err, doclock.ErrNotFound) {
			return nil, errBusy
		}
		if err == nil && len(leases) < n {
			return nil, errors.Join(errBusy, leases.Release(ctx))
		}
		return leases, err
	}
	two, err := take(2)
	check(err)
	_, err = take(2)
	fmt.Println("two more:", err)
	one, err := take(1)
	check(err)
	fmt.Println("have:", len(two)+len(one))
	check(two.Release(ctx))
	check(one.Release(ctx))
	// Output:
	// two more: they are busy
	// have: 3
}

// An urgent acquire waits for the holder, and goes before all others that wait.
func Example_priorities() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	printers := mem.Collection("printers", bson.M{"_id": "p1"})
	assertive, cooperative := relations.Relation{Kind: relations.Assertive}, relations.Relation{Kind: relations.Cooperative}
	locks, err := multilock.New(printers, relations.Rules{
		"urgent":  {"urgent": assertive, "routine": assertive},
		"routine": {"urgent": cooperative, "routine": cooperative},
	})
	check(err)

	busy, err := locks.TryAcquire(ctx, doclock.ID("p1"), "routine")
	check(err)
	urgent, err := locks.Enqueue(ctx, doclock.ID("p1"), "urgent") // Acquire and Do wait in the same place
	check(err)
	check(busy.Release(ctx))
	_, err = locks.TryAcquire(ctx, doclock.ID("p1"), "routine")
	fmt.Println("routine goes first:", !errors.Is(err, doclock.ErrConflict))
	lease, err := urgent.Confirm(ctx)
	check(err)
	fmt.Println(lease.Tag(), "prints")
	check(lease.Release(ctx))
	// Output:
	// routine goes first: false
	// urgent prints
}
