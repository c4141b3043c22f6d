package main

import (
	"context"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

type letter struct {
	To    string
	Tries int // that failed
}

var byDue = doclock.Sort(bson.D{{Key: "due", Value: 1}})

// next sends the letter that has been due for longest, and deletes it. The error is
// doclock.ErrNotFound if none is due. The time in the filter is that of the call, so
// next doesn't wait: call it again.
func next(ctx context.Context, locks *writelock.Locker, send func(context.Context, letter) error) error {
	var l letter
	due := bson.M{"due": bson.M{"$lte": time.Now()}}
	return locks.Do(ctx, due, func(ctx context.Context, lease *doclock.Lease) error {
		if err := send(ctx, l); err != nil {
			return again(ctx, lease, l, err)
		}
		return lease.Delete(ctx)
	}, doclock.SkipLocked(), byDue, doclock.Into(&l), doclock.MaxWait(0))
}

// most is how often a letter is tried.
const most = 8

// again puts a letter off: by a second, and by twice as long after each failure. One
// that was tried too often is never due again, and stays for people to look at.
func again(ctx context.Context, lease *doclock.Lease, l letter, why error) error {
	due := time.Now().Add(time.Second << l.Tries)
	change := bson.M{"$set": bson.M{"why": why.Error(), "due": due}, "$inc": bson.M{"tries": 1}}
	if l.Tries+1 == most {
		change = bson.M{"$set": bson.M{"why": why.Error()}, "$inc": bson.M{"tries": 1}, "$unset": bson.M{"due": 1}}
	}
	return lease.UpdateAndRelease(ctx, change)
}
