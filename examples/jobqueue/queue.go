package main

import (
	"context"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

type job struct{ Name string }

var byPriority = doclock.Sort(bson.D{{Key: "priority", Value: -1}})

// next does the next job, and waits until there is one. Do renews the lock during
// the work. If the worker dies, the job is free after the lease's end.
func next(ctx context.Context, locks *writelock.Locker, pending bson.M, work func(context.Context, job) error) (job, error) {
	var j job
	err := locks.Do(ctx, pending, func(ctx context.Context, lease *doclock.Lease) error {
		if err := work(ctx, j); err != nil {
			return err // the job is free at once
		}
		return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"state": "done"}})
	}, doclock.SkipLocked(), byPriority, doclock.Into(&j))
	return j, err
}
