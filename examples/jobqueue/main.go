// Command jobqueue has workers claim jobs by their priority, one by one and in batches. One
// worker dies, and another one does its job. The functions to copy are next and batch.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

type job struct{ Name string }

var byPriority = doclock.Sort(bson.D{{Key: "priority", Value: -1}})

// next does the next job, and waits until there is one. The lock is renewed during the
// work, also if ctx ends. If the worker dies, the job is free after the lease's end.
func next(ctx context.Context, locks *writelock.Locker, pending bson.M, work func(context.Context, job) error) (job, error) {
	var j job
	err := locks.Do(ctx, pending, func(ctx context.Context, lease doclock.Lease) error {
		hold := context.WithoutCancel(ctx) // a shutdown lets the job end
		if err := work(lease.KeepAlive(hold), j); err != nil {
			return err // the job is free at once
		}
		return lease.UpdateAndRelease(hold, bson.M{"$set": bson.M{"state": "done"}})
	}, doclock.SkipLocked(), byPriority, doclock.Into(&j))
	return j, err
}

// batch does up to n jobs, one after the other, and waits until there is one. Each job's
// context ends with its own lease. If ctx ends, batch begins no other job.
func batch(ctx context.Context, locks *writelock.Locker, pending bson.M, n int, work func(context.Context, job) error) (done []job, err error) {
	var jobs []job
	leases, err := locks.AcquireBatch(ctx, pending, n, byPriority, doclock.Into(&jobs))
	if err != nil {
		return nil, err
	}
	hold := context.WithoutCancel(ctx)                              // a shutdown lets the job in hand end
	defer func() { err = errors.Join(err, leases.Release(hold)) }() // what is not done is free at once, and taken again
	kept := make([]context.Context, len(leases))
	for i, lease := range leases {
		kept[i] = lease.KeepAlive(hold) // all from the beginning on
	}
	for i, lease := range leases {
		switch {
		case ctx.Err() != nil:
			return done, err
		case kept[i].Err() != nil:
			continue // it was lost before its turn, as the release says
		}
		failed := work(kept[i], jobs[i])
		if failed == nil {
			failed = lease.UpdateAndRelease(hold, bson.M{"$set": bson.M{"state": "done"}})
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", jobs[i].Name, failed))
			continue
		}
		done = append(done, jobs[i])
	}
	return done, err
}

func main() {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
	if err != nil { // it may have the URI's password in it
		log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017")
	}
	jobs := client.Database("queue").Collection("jobs")
	keys := bson.D{{Key: "queue", Value: 1}, {Key: "state", Value: 1}, {Key: "priority", Value: -1}}
	_, err = jobs.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys})
	check(err)
	queue := bson.NewObjectID()
	for priority, name := range []string{"tidy up", "send the news", "send the invoice"} {
		_, err := jobs.InsertOne(ctx, bson.M{"queue": queue, "state": "pending", "name": name, "priority": priority})
		check(err)
	}
	locks, err := writelock.New(jobs)
	check(err)
	pending := bson.M{"queue": queue, "state": "pending"}

	var dead job // its worker neither renews nor releases
	_, err = locks.Acquire(ctx, pending, doclock.SkipLocked(), byPriority, doclock.Into(&dead), doclock.TTL(2*time.Second))
	check(err)
	fmt.Println("a worker dies at:", dead.Name)
	done := make(chan job)
	go func() {
		for {
			j, err := next(ctx, locks, pending, work)
			check(err)
			done <- j
		}
	}()
	go func() {
		for {
			jobs, err := batch(ctx, locks, pending, 2, work)
			check(err)
			for _, j := range jobs {
				done <- j
			}
		}
	}()
	for range 3 {
		fmt.Println("done:", (<-done).Name)
	}
}

// work stands for what a job is about.
func work(context.Context, job) error {
	time.Sleep(100 * time.Millisecond)
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
