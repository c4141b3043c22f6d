package writelock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// docs/jobs.md leads to these examples, and explains most.

// A sender repeats its message until it is answered, also while the first one is handled.
func Example_webhook() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	messages := mem.Collection("messages")
	locks, err := writelock.New(messages, doclock.Upsert())
	check(err)
	handle := func(_ context.Context, text string) error { fmt.Println("handled:", text); return nil }

	receive := func(id, text string) error {
		var message struct{ Handled time.Time }
		return locks.Do(ctx, doclock.ID(id), func(ctx context.Context, lease doclock.Lease) error {
			if !message.Handled.IsZero() {
				return nil
			}
			if err := handle(ctx, text); err != nil {
				return err // the sender repeats it
			}
			return lease.UpdateAndRelease(ctx, bson.M{"$currentDate": bson.M{"handled": true}})
		}, doclock.Into(&message))
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { check(receive("evt_1", "A-17 is paid")) })
	}
	all.Wait()
	check(receive("evt_2", "A-18 is paid"))
	// Output:
	// handled: A-17 is paid
	// handled: A-18 is paid
}

// A worker that dies has written down how far it came, and the next one goes on from there.
func Example_progress() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	exports := mem.Collection("exports", bson.M{"_id": "2026", "pages": 5, "done": 0})
	locks, err := writelock.New(exports)
	check(err)

	work := func(ctx context.Context, export func(ctx context.Context, page int) error) error {
		var task struct{ Pages, Done int }
		open := bson.M{"$expr": bson.M{"$lt": bson.A{"$done", "$pages"}}}
		return locks.Do(ctx, open, func(ctx context.Context, lease doclock.Lease) error {
			for page := task.Done + 1; page <= task.Pages; page++ {
				if err := export(ctx, page); err != nil {
					return err
				}
				if err := lease.Update(ctx, bson.M{"$set": bson.M{"done": page}}); err != nil {
					return err // another worker has the task
				}
			}
			return nil
		}, doclock.SkipLocked(), doclock.Into(&task), doclock.MaxWait(0))
	}
	slow := work(ctx, func(_ context.Context, page int) error {
		fmt.Println("Ada exports page", page)
		if page == 3 { // she is stopped for an hour, and her lease has ended
			mem.Advance(time.Hour)
			check(work(ctx, func(_ context.Context, page int) error {
				fmt.Println("Bob exports page", page)
				return nil
			}))
		}
		return nil
	})
	fmt.Println("Ada goes on:", !errors.Is(slow, doclock.ErrLost))
	// Output:
	// Ada exports page 1
	// Ada exports page 2
	// Ada exports page 3
	// Bob exports page 3
	// Bob exports page 4
	// Bob exports page 5
	// Ada goes on: false
}

// A worker is told to stop. It ends the job that it has, or gives it back at once.
func Example_shutdown() {
	stopping, stop := context.WithCancel(context.Background()) // a program takes signal.NotifyContext
	mem := locktest.Start()
	defer mem.Close()
	jobs := mem.Collection("jobs", bson.M{"_id": 1}, bson.M{"_id": 2})
	locks, err := writelock.New(jobs)
	check(err)

	worker := func() error {
		for {
			err := locks.Do(stopping, bson.M{"done": nil}, func(ctx context.Context, lease doclock.Lease) error {
				ctx = lease.KeepAlive(context.WithoutCancel(ctx)) // ends with the lease alone
				fmt.Println("job", lease.DocumentID().AsInt64())
				stop()
				return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"done": true}})
			}, doclock.SkipLocked(), doclock.Sort(bson.D{{Key: "_id", Value: 1}}))
			if err != nil {
				return err
			}
		}
	}
	fmt.Println("stopped:", errors.Is(worker(), context.Canceled))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(stopping), 10*time.Second)
	defer cancel()
	check(locks.Close(ctx)) // waits for what is held, and refuses what comes
	done, err := jobs.CountDocuments(ctx, bson.M{"done": true})
	fmt.Println("done:", done, err)
	// Output:
	// job 1
	// stopped: true
	// done: 1 <nil>
}

// Some programs still mark a document as locked by hand. Both ways keep each other out.
func Example_handMade() {
	ctx := context.Background()
	mem := locktest.Start(locktest.ReplicaSet())
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17"}, bson.M{"_id": "A-18"})
	locks, err := writelock.New(orders)
	check(err)

	errLocked := errors.New("it is locked")
	const most = 5 * time.Minute // a mark by hand is worth so long
	unmarked := func(id string) bson.M {
		long := bson.M{"$lt": bson.A{"$lockedAt", bson.M{"$subtract": bson.A{"$$NOW", most.Milliseconds()}}}}
		return bson.M{"_id": id, "$or": bson.A{bson.M{"locked": bson.M{"$ne": true}}, bson.M{"$expr": long}}}
	}
	byHand := func(id string) error {
		filter := unmarked(id)
		// Nobody has it by doclock, nor has left a transaction.
		filter["$expr"] = bson.M{"$not": bson.M{"$gt": bson.A{bson.M{"$max": "$lock.tags.write.expires"}, "$$NOW"}}}
		filter["lock.tags.write.fenced"] = bson.M{"$exists": false}
		mark := bson.M{"$set": bson.M{"locked": true}, "$currentDate": bson.M{"lockedAt": true}}
		mark["$unset"] = bson.M{"lock.tags.write": 1} // refuses the writes of an expired holder
		if orders.FindOneAndUpdate(ctx, filter, mark).Err() != nil {
			return errLocked
		}
		return nil
	}
	moved := func(id string) error {
		err := locks.Do(ctx, unmarked(id), func(ctx context.Context, _ doclock.Lease) error {
			fmt.Println("by hand, beside doclock:", byHand(id))
			return nil
		}, doclock.MaxWait(0))
		if errors.Is(err, doclock.ErrNotFound) {
			return errLocked
		}
		return err
	}
	check(moved("A-17"))
	check(byHand("A-18"))
	fmt.Println("doclock, beside a mark:", moved("A-18"))
	mem.Advance(most + time.Second)
	check(moved("A-18"))

	late, err := locks.TryAcquire(ctx, doclock.ID("A-17"))
	check(err)
	mem.Advance(time.Minute) // its program is stopped
	check(byHand("A-17"))
	err = late.Update(ctx, bson.M{"$set": bson.M{"late": true}})
	fmt.Println("doclock writes late:", !errors.Is(err, doclock.ErrLost))
	mem.Advance(most)
	late, err = locks.TryAcquire(ctx, doclock.ID("A-17"))
	check(err)
	check(late.WithTransaction(ctx, func(context.Context) error {
		mem.Advance(30 * time.Second)
		fmt.Println("by hand, beside a late transaction:", byHand("A-17"))
		return nil
	}))
	// Output:
	// by hand, beside doclock: it is locked
	// doclock, beside a mark: it is locked
	// by hand, beside doclock: it is locked
	// doclock writes late: false
	// by hand, beside a late transaction: it is locked
}

// Locks have names that come and go. Once a day the documents that nobody uses are deleted.
func Example_names() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	names := mem.Collection("locks")
	locks, err := writelock.New(names, doclock.Upsert())
	check(err)
	for _, file := range []string{"a.pdf", "b.pdf"} {
		check(locks.Do(ctx, doclock.ID(file), func(context.Context, doclock.Lease) error { return nil }))
	}
	mem.Advance(25 * time.Hour)
	held, err := locks.TryAcquire(ctx, doclock.ID("b.pdf"))
	check(err)

	sweep := func() error {
		return locks.Do(ctx, doclock.ID("sweep"), func(ctx context.Context, _ doclock.Lease) error {
			count, err := admin.Sweep(ctx, names, admin.DeleteIdle(24*time.Hour))
			fmt.Println("deleted:", count.Deleted)
			return err
		}, doclock.MaxWait(0), doclock.HoldAtLeast(12*time.Hour))
	}
	check(sweep())
	check(held.Release(ctx))
	// Output:
	// deleted: 1
}
