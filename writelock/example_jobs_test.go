package writelock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// docs/jobs.md leads to these examples, and explains most.

// An order is charged once, however many requests ask for it.
func Example_payment() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	orders := mem.Collection("orders", bson.M{"_id": "A-17", "total": 30})
	locks, err := writelock.New(orders)
	check(err)
	charge := func(order string, total int) (receipt string, err error) { // stands for the payment provider
		fmt.Println("charged", total, "EUR for order", order)
		return "receipt 1", nil
	}

	pay := func(id string) error {
		var order struct {
			Total   int
			Receipt string
		}
		return locks.Do(ctx, doclock.ID(id), func(ctx context.Context, lease doclock.Lease) error {
			if order.Receipt != "" {
				return nil // another request has paid it
			}
			receipt, err := charge(id, order.Total)
			if err != nil {
				return err
			}
			return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"receipt": receipt}})
		}, doclock.Into(&order))
	}
	var requests sync.WaitGroup
	for range 3 {
		requests.Go(func() { check(pay("A-17")) })
	}
	requests.Wait()
	// Output:
	// charged 30 EUR for order A-17
}

// Every machine's timer starts a job, and one machine runs it. Their clocks differ,
// and the job is done in a moment: so the lock outlasts the job.
func Example_oncePerTick() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	names := mem.Collection("locks")
	locks, err := writelock.New(names, doclock.Upsert())
	check(err)

	const between = time.Hour // two ticks
	tick := func(machine string) error {
		cleanUp := func(context.Context, doclock.Lease) error {
			fmt.Println(machine, "cleans up")
			return nil
		}
		err := locks.Do(ctx, doclock.ID("clean up"), cleanUp, doclock.MaxWait(0), doclock.HoldAtLeast(between/2))
		if errors.Is(err, doclock.ErrConflict) {
			return nil // another machine runs it, or has run it
		}
		return err
	}
	check(tick("Ada"))
	mem.Advance(between / 3)
	check(tick("Bob")) // whose clock is late
	mem.Advance(between - between/3)
	check(tick("Ada"))
	// Output:
	// Ada cleans up
	// Ada cleans up
}

// The instances of a service start together. One migrates the data, and the others
// wait until that is done.
func Example_migration() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	people := mem.Collection("people", bson.M{"name": "Ada"}, bson.M{"name": "Bob"})
	schemas := mem.Collection("schema")
	locks, err := writelock.New(schemas, doclock.Upsert())
	check(err)
	addCountries := func(ctx context.Context) error { // may be done twice, as each step must
		r, err := people.UpdateMany(ctx, bson.M{"country": nil}, bson.M{"$set": bson.M{"country": "CH"}})
		if err == nil {
			fmt.Println("migrated", r.ModifiedCount, "people")
		}
		return err
	}

	const latest = 2 // the version that this program needs
	migrate := func() error {
		var schema struct{ Version int }
		return locks.Do(ctx, doclock.ID("people"), func(ctx context.Context, lease doclock.Lease) error {
			if schema.Version >= latest {
				return nil // another instance has migrated while this one waited
			}
			err := addCountries(ctx)
			if err != nil {
				return err
			}
			return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"version": latest}})
		}, doclock.Into(&schema))
	}
	var instances sync.WaitGroup
	for range 4 {
		instances.Go(func() { check(migrate()) })
	}
	instances.Wait()
	// Output:
	// migrated 2 people
}

// A letter that was sent is deleted. One that could not be sent is tried again later,
// and too many times never.
func Example_mailQueue() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	now := mem.Now // a program takes time.Now
	letters := mem.Collection("letters", bson.M{"to": "Ann", "due": now()}, bson.M{"to": "Bob", "due": now()})
	locks, err := writelock.New(letters)
	check(err)
	send := func(to string, tries int) error { // stands for the mail server
		if to == "Bob" && tries == 0 {
			return errors.New("the server is busy")
		}
		return nil
	}

	const most = 8 // tries of a letter
	next := func() error {
		var letter struct {
			To    string
			Tries int // that failed
		}
		byDue := doclock.Sort(bson.D{{Key: "due", Value: 1}})
		due := bson.M{"due": bson.M{"$lte": now()}}
		return locks.Do(ctx, due, func(ctx context.Context, lease doclock.Lease) error {
			if why := send(letter.To, letter.Tries); why != nil {
				fmt.Println("not sent to", letter.To+":", why)
				change := bson.M{"$set": bson.M{"due": now().Add(time.Second << letter.Tries)}, "$inc": bson.M{"tries": 1}}
				if letter.Tries+1 == most {
					change = bson.M{"$unset": bson.M{"due": 1}, "$inc": bson.M{"tries": 1}}
				}
				return lease.UpdateAndRelease(ctx, change)
			}
			fmt.Println("sent to", letter.To)
			return lease.Delete(ctx)
		}, doclock.SkipLocked(), byDue, doclock.Into(&letter), doclock.MaxWait(0))
	}
	check(next())
	check(next())
	fmt.Println("none is due:", errors.Is(next(), doclock.ErrNotFound))
	mem.Advance(time.Second)
	check(next())
	// Output:
	// sent to Ann
	// not sent to Bob: the server is busy
	// none is due: true
	// sent to Bob
}

// The steps of an order are done in the order of their numbers, by any worker.
func Example_inOrder() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	steps := mem.Collection("steps",
		bson.M{"order": "A-17", "number": 2, "name": "pack", "done": false},
		bson.M{"order": "A-17", "number": 1, "name": "pay", "done": false})
	locks, err := writelock.New(steps)
	check(err)

	byNumber := doclock.Sort(bson.D{{Key: "number", Value: 1}})
	next := func(order string, work func(step string) error) error {
		var step struct{ Name string }
		open := bson.M{"order": order, "done": false}
		return locks.Do(ctx, open, func(ctx context.Context, lease doclock.Lease) error {
			if err := work(step.Name); err != nil {
				return err // it stays the first
			}
			return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"done": true}})
		}, byNumber, doclock.Into(&step))
	}
	fmt.Println(next("A-17", func(step string) error { return errors.New("can't " + step) }))
	for {
		err := next("A-17", func(step string) error {
			fmt.Println(step)
			return nil
		})
		if errors.Is(err, doclock.ErrNotFound) {
			return // no step is left
		}
		check(err)
	}
	// Output:
	// can't pay
	// pay
	// pack
}

// One process makes a report. Another one that asks for it meanwhile is told who does.
// No document has to be there: Upsert inserts one for each name.
func Example_reportByName() {
	ctx := context.Background()
	mem := locktest.Start()
	defer mem.Close()
	names := mem.Collection("locks")
	ada, err := writelock.New(names, doclock.Upsert(), doclock.Owner("Ada"))
	check(err)
	bob, err := writelock.New(names, doclock.Upsert(), doclock.Owner("Bob"))
	check(err)

	report := func(locks *writelock.Locker, month string, work func(context.Context, doclock.Lease) error) error {
		err := locks.Do(ctx, doclock.ID("report "+month), work, doclock.MaxWait(0)) // one try
		var conflict *doclock.ConflictError
		if errors.As(err, &conflict) {
			fmt.Println("the report is being made by", conflict.Holders[0].Owner)
			return nil
		}
		return err
	}
	check(report(ada, "2026-11", func(context.Context, doclock.Lease) error {
		check(report(bob, "2026-11", func(context.Context, doclock.Lease) error { return nil })) // asks while Ada works
		fmt.Println("the report is made")
		return nil
	}))
	// Output:
	// the report is being made by Ada
	// the report is made
}
