package main

import (
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A claimer takes the next document of a queue, in one of several ways.
type claimer interface {
	subject
	// claim returns the pending document of the highest priority that is free.
	// If it finds none, the error is errNoneFree.
	claim(context.Context) (claimed, error)
}

// claimed is a document that a worker has.
type claimed struct {
	job
	finish func(context.Context) error // the final write
}

type job struct {
	ID       int `bson:"_id"`
	Priority int
}

var errNoneFree = errors.New("no document is free")

// jobs is the collection of the queue. It has an index on state and priority.
const jobs = "jobs"

var (
	pending    = bson.D{{Key: "state", Value: "pending"}}
	byPriority = bson.D{{Key: "priority", Value: -1}}
	done       = bson.M{"$set": bson.M{"state": "done"}}
)

// onQueue is common to all claimers. A worker that has a lock on its document
// finishes with the write that releases it.
type onQueue struct {
	base
	jobs  *mongo.Collection
	locks *writelock.Locker
}

func (q *onQueue) openQueue(s *servers, ttl time.Duration) (err error) {
	if err := q.open(s, ttl); err != nil {
		return err
	}
	q.jobs = q.client.Database(s.Database).Collection(jobs)
	q.locks, err = writelock.New(q.jobs, doclock.TTL(ttl))
	return err
}

func (q *onQueue) close() {
	closeLocker(q.locks)
	q.base.close()
}

func (q *onQueue) locked(lease *doclock.Lease, j job) claimed {
	return claimed{j, func(ctx context.Context) error { return lease.UpdateAndRelease(ctx, done) }}
}

// doclockClaim claims with writelock's options for a queue.
type doclockClaim struct{ onQueue }

func openDoclockClaim(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	d := &doclockClaim{}
	return d, d.openQueue(s, ttl)
}

func (d *doclockClaim) claim(ctx context.Context) (claimed, error) {
	var j job
	lease, err := d.locks.TryAcquire(ctx, pending, doclock.SkipLocked(), doclock.Sort(byPriority), doclock.Into(&j))
	if errors.Is(err, doclock.ErrNotFound) {
		return claimed{}, errNoneFree
	}
	return d.locked(lease, j), err
}

// findTry claims with writelock's TryAcquire alone, as one would without
// doclock.SkipLocked: it looks for the first pending documents, and tries them
// in their order until one is free. Locked documents are pending, too, so each
// worker tries those of the others first.
//
//	find        {state: "pending"}, sort {priority: -1}, limit 32, projection {_id: 1}
//	TryAcquire  {_id, state: "pending"}, until one is granted
//	final write UpdateAndRelease {$set: {state: "done"}}
type findTry struct{ onQueue }

func openFindTry(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	f := &findTry{}
	return f, f.openQueue(s, ttl)
}

var firstPending = options.Find().SetSort(byPriority).SetLimit(32).SetProjection(bson.M{"_id": 1})

func (f *findTry) claim(ctx context.Context) (claimed, error) {
	cursor, err := f.jobs.Find(ctx, pending, firstPending)
	if err != nil {
		return claimed{}, err
	}
	var found []job
	if err := cursor.All(ctx, &found); err != nil {
		return claimed{}, err
	}
	for _, one := range found {
		var j job
		lease, err := f.locks.TryAcquire(ctx, bson.D{{Key: "_id", Value: one.ID}, {Key: "state", Value: "pending"}}, doclock.Into(&j))
		switch {
		case err == nil:
			return f.locked(lease, j), nil
		case !errors.Is(err, doclock.ErrConflict) && !errors.Is(err, doclock.ErrNotFound):
			return claimed{}, err
		}
	}
	return claimed{}, errNoneFree
}

// findAndModify marks the document, without a lock: most queues in MongoDB are
// built so. It is not safe. The document of a worker that dies stays taken for
// ever, and a cleaner that gives it back after a time lets a slow worker's final
// write overwrite the next one's.
//
//	findAndModify {state: "pending"} {$set: {state: "taken"}}, sort {priority: -1}
//	final write   updateOne {_id} {$set: {state: "done"}}
type findAndModify struct{ onQueue }

func openFindAndModify(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	f := &findAndModify{}
	return f, f.openQueue(s, ttl)
}

func (f *findAndModify) claim(ctx context.Context) (claimed, error) {
	var j job
	err := unlessDeadlocked(func() error {
		return f.jobs.FindOneAndUpdate(ctx, pending, bson.M{"$set": bson.M{"state": "taken"}}, options.FindOneAndUpdate().SetSort(byPriority)).Decode(&j)
	})
	if none(err) {
		return claimed{}, errNoneFree
	}
	return claimed{j, func(ctx context.Context) error {
		return unlessDeadlocked(func() error {
			_, err := f.jobs.UpdateOne(ctx, bson.M{"_id": j.ID}, done)
			return err
		})
	}}, err
}
