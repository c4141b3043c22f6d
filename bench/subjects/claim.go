package subjects

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Claimed is a document of a queue that a worker has.
type Claimed struct {
	job
	Finish func(context.Context) error // the final write
}

type job struct {
	ID       int `bson:"_id"`
	Priority int
}

// ErrNoneFree is the error of a claim that found no document.
var ErrNoneFree = errors.New("no document is free")

var (
	pending    = bson.D{{Key: "state", Value: "pending"}}
	byPriority = bson.D{{Key: "priority", Value: -1}}
	done       = bson.M{"$set": bson.M{"state": "done"}}
)

// Queue is the collection of the claims. It has an index on state and priority.
func (s *Subject) Queue() *mongo.Collection { return s.others("jobs") }

// Fill makes a queue of documents with different priorities, in any order.
func (s *Subject) Fill(ctx context.Context, n int) error {
	queue := s.Queue()
	if err := queue.Drop(ctx); err != nil {
		return err
	}
	var all []any
	for i, priority := range rand.Perm(n) {
		doc := Blank(i)
		doc["state"], doc["priority"] = "pending", priority
		all = append(all, doc)
	}
	if _, err := queue.InsertMany(ctx, all); err != nil {
		return err
	}
	_, err := queue.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "state", Value: 1}, {Key: "priority", Value: -1}}})
	return err
}

// Pending reports whether the queue has a document that isn't done, locked or not. It is one command.
func (s *Subject) Pending(ctx context.Context) (bool, error) {
	err := s.Queue().FindOne(ctx, pending).Err()
	if none(err) {
		return false, nil
	}
	return err == nil, err
}

// Finished counts the documents that are done.
func (s *Subject) Finished(ctx context.Context) (int64, error) {
	return s.Queue().CountDocuments(ctx, bson.M{"state": "done"})
}

// openClaim claims with writelock's options for a queue.
func openClaim(s *Subject) error {
	locks, err := s.writelock(s.Queue(), doclock.AttemptTimeout(s.ttl*9/10)) // some commands wait for seconds at DocumentDB
	s.Claim = func(ctx context.Context) (Claimed, error) {
		var j job
		lease, err := locks.TryAcquire(ctx, pending, doclock.SkipLocked(), doclock.Sort(byPriority), doclock.Into(&j))
		if errors.Is(err, doclock.ErrNotFound) {
			return Claimed{}, ErrNoneFree
		}
		if err != nil {
			return Claimed{}, err
		}
		return Claimed{j, func(ctx context.Context) error { return lease.UpdateAndRelease(ctx, done) }}, nil
	}
	return err
}

// openFindAndModify marks the document, without a lock: most queues in MongoDB are
// built so. It is not safe. The document of a worker that dies stays taken for
// ever, and a cleaner that gives it back after a time lets a slow worker's final
// write overwrite the next one's.
//
//	findAndModify {state: "pending"} {$set: {state: "taken"}}, sort {priority: -1}
//	final write   updateOne {_id} {$set: {state: "done"}}
func openFindAndModify(s *Subject) error {
	s.Claim = func(ctx context.Context) (Claimed, error) {
		var j job
		err := unlessDeadlocked(func() error {
			return s.Queue().FindOneAndUpdate(ctx, pending, bson.M{"$set": bson.M{"state": "taken"}}, options.FindOneAndUpdate().SetSort(byPriority)).Decode(&j)
		})
		if none(err) {
			return Claimed{}, ErrNoneFree
		}
		return Claimed{job: j, Finish: func(ctx context.Context) error {
			return unlessDeadlocked(func() error {
				_, err := s.Queue().UpdateOne(ctx, bson.M{"_id": j.ID}, done)
				return err
			})
		}}, err
	}
	return nil
}
