package claims

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/child"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	childName = "claims"
	ttl       = 2 * time.Second
	tolerance = 200 * time.Millisecond
	quick     = 20 * time.Millisecond  // the longest work for a job
	slow      = 500 * time.Millisecond // that of the first worker of a process
	idle      = 20 * time.Millisecond  // the pause of a worker that was told that no job is free
)

var (
	pending    = bson.M{"state": "pending"}
	byPriority = bson.D{{Key: "priority", Value: -1}}
	doneOnce   = bson.M{"$set": bson.M{"state": "done"}, "$inc": bson.M{"done": 1}}
)

// Main turns the process into workers if it was started as such, and then does not
// return. Tests that call [Run] call it first.
func Main() { child.Main(childName, workers) }

// workers do jobs until the input ends. They print
//
//	claimed <job> <when the claim began> <when it ended>
//	nothing <when the claim began> <when it ended>
//	lost <job>
//	failed <why>
//	commands <number since the last such line>
func workers(ctx context.Context, args []string) error {
	client, commands, err := child.Connect(args[0])
	if err != nil {
		return err
	}
	jobs := client.Database(args[1]).Collection("jobs")
	locks, err := writelock.New(jobs, doclock.TTL(ttl), doclock.ClockTolerance(tolerance), doclock.Owner(args[2]))
	if err != nil {
		return err
	}
	next := locked(locks)
	if args[3] == "careless" {
		next = careless(jobs)
	}
	var all sync.WaitGroup
	for number := range perProcess {
		longest := quick
		if number == 0 {
			longest = slow
		}
		all.Go(func() {
			for ctx.Err() == nil {
				work(next, longest)
				fmt.Println("commands", commands.Swap(0))
			}
		})
	}
	all.Wait()
	return locks.Close(context.Background())
}

// claim takes a job, and returns how to end it.
type claim func(ctx context.Context) (job, error)

type job struct {
	ID  int `bson:"_id"`
	end func(context.Context) error
}

func locked(locks *writelock.Locker) claim {
	return func(ctx context.Context) (j job, err error) {
		lease, err := locks.TryAcquire(ctx, pending, doclock.SkipLocked(), doclock.Sort(byPriority), doclock.Into(&j))
		if err != nil {
			return j, err
		}
		j.end = func(ctx context.Context) error { return lease.UpdateAndRelease(ctx, doneOnce) }
		return j, nil
	}
}

// careless locks nothing: the checks must fail.
func careless(jobs *mongo.Collection) claim {
	return func(ctx context.Context) (j job, err error) {
		err = jobs.FindOne(ctx, pending, options.FindOne().SetSort(byPriority)).Decode(&j)
		if errors.Is(err, mongo.ErrNoDocuments) {
			err = doclock.ErrNotFound
		}
		j.end = func(ctx context.Context) error {
			_, err := jobs.UpdateByID(ctx, j.ID, doneOnce)
			return err
		}
		return j, err
	}
}

// work does one job.
func work(next claim, longest time.Duration) {
	ctx := context.Background()
	begun := time.Now().UnixNano()
	j, err := next(ctx)
	ended := time.Now().UnixNano()
	switch {
	case errors.Is(err, doclock.ErrNotFound):
		fmt.Println("nothing", begun, ended)
		time.Sleep(idle)
		return
	case err != nil:
		fmt.Println("failed", err)
		return
	}
	fmt.Println("claimed", j.ID, begun, ended)
	time.Sleep(rand.N(longest))
	switch err := j.end(ctx); {
	case errors.Is(err, doclock.ErrLost):
		fmt.Println("lost", j.ID)
	case err != nil:
		fmt.Println("failed", err)
	}
}
