// Command jobqueue has workers claim jobs by their priority. One worker dies, and
// another one does its job. The function to copy is next.
package main

import (
	"context"
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

// next does the next job, and waits until there is one. Do renews the lock during
// the work. If the worker dies, the job is free after the lease's end.
func next(ctx context.Context, locks *writelock.Locker, pending bson.M, work func(context.Context, job) error) (job, error) {
	var j job
	err := locks.Do(ctx, pending, func(ctx context.Context, lease doclock.Lease) error {
		if err := work(ctx, j); err != nil {
			return err // the job is free at once
		}
		return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"state": "done"}})
	}, doclock.SkipLocked(), byPriority, doclock.Into(&j))
	return j, err
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
	_, err = locks.TryAcquire(ctx, pending, doclock.SkipLocked(), byPriority, doclock.Into(&dead), doclock.TTL(2*time.Second))
	check(err)
	fmt.Println("a worker dies at:", dead.Name)
	done := make(chan job)
	for range 2 {
		go func() {
			for {
				j, err := next(ctx, locks, pending, work)
				check(err)
				done <- j
			}
		}()
	}
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
