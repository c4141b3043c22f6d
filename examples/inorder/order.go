package main

import (
	"context"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

type step struct {
	Number int
	Name   string
}

var byNumber = doclock.Sort(bson.D{{Key: "number", Value: 1}})

// next does the first step of an order that is not done. While another worker does it,
// next waits. The error is doclock.ErrNotFound if none is left, and also if the step
// that it waited for is done: call it again.
func next(ctx context.Context, locks *writelock.Locker, order string, work func(context.Context, step) error) error {
	var s step
	open := bson.M{"order": order, "done": false}
	return locks.Do(ctx, open, func(ctx context.Context, lease *doclock.Lease) error {
		if err := work(ctx, s); err != nil {
			return err // it stays the first
		}
		return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"done": true}})
	}, byNumber, doclock.Into(&s))
}
