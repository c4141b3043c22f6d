// Command asynq runs a github.com/hibiken/asynq Scheduler in one of the instances of a program: in the leader. If it dies,
// another one enqueues the tasks.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"github.com/hibiken/asynq"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// apart is how much the clocks of the instances may differ: the leader before has enqueued the tasks of the ticks until then.
const apart = time.Second

// enqueue enqueues the tasks while this instance leads, until ctx ends.
func enqueue(ctx context.Context, locks *writelock.Locker, redis asynq.RedisConnOpt, opts *asynq.SchedulerOpts) error {
	return locks.Lead(ctx, doclock.ID("scheduler"), func(ctx context.Context, _ *doclock.Lease) error {
		select {
		case <-time.After(apart):
		case <-ctx.Done():
			return ctx.Err()
		}
		scheduler := asynq.NewScheduler(redis, opts) // a new one for each term: after Shutdown it can't be started again
		_, err := scheduler.Register("@every 1s", asynq.NewTask("clean up", nil))
		err = errors.Join(err, scheduler.Start())
		defer scheduler.Shutdown()
		if err == nil {
			<-ctx.Done()
			err = ctx.Err()
		}
		return err
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	uri, redis := os.Getenv("MONGODB_URI"), os.Getenv("REDIS_ADDRESS")
	if uri == "" || redis == "" {
		log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017, and REDIS_ADDRESS, as in localhost:6379")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	check(err)
	locks, err := writelock.New(client.Database("jobs").Collection("locks"), doclock.Upsert())
	check(err)
	err = enqueue(ctx, locks, asynq.RedisClientOpt{Addr: redis}, nil)
	if !errors.Is(err, context.Canceled) {
		check(err)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
