package subjects

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// poll tries until it succeeds or ctx ends. The rivals that leave waiting to
// their callers all wait as doclock does alone: an eighth of the time waited so
// far, from 2 ms to 1 s, jittered. A sent command is not cut off, because it
// could leave a lock without a holder.
func poll(ctx context.Context, try func(context.Context) (bool, error)) error {
	detached := context.WithoutCancel(ctx)
	for begun := time.Now(); ; {
		var done bool
		err := unlessDeadlocked(func() (err error) { done, err = try(detached); return err })
		if err != nil || done {
			return err
		}
		d := min(max(time.Since(begun)/8, 2*time.Millisecond), time.Second)
		select {
		case <-time.After(d/2 + rand.N(d)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// updating releases with an update that changes a document if the lock was not lost.
func updating(in *mongo.Collection, filter, update bson.M) Unlock {
	return func(ctx context.Context) error {
		return unlessDeadlocked(func() error {
			r, err := in.UpdateOne(ctx, filter, update)
			if err == nil && r.MatchedCount != 1 {
				return errors.New("the lock was lost")
			}
			return err
		})
	}
}

var onlyID = options.FindOneAndUpdate().SetProjection(bson.M{"_id": 1})

// none reports whether no document matched, which for a rival means "not now".
func none(err error) bool { return errors.Is(err, mongo.ErrNoDocuments) }

// unlessDeadlocked repeats a command that DocumentDB gave up because of a
// deadlock among its own row locks. The command changed nothing. The error code
// is not always its own.
func unlessDeadlocked(command func() error) error {
	for {
		if err := command(); err == nil || !strings.Contains(err.Error(), "deadlock detected") {
			return err
		}
	}
}
