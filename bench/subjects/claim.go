package subjects

import (
	"cmp"
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
	s.Claim = func(ctx context.Context) ([]Claimed, error) {
		var j job
		lease, err := locks.TryAcquire(ctx, pending, doclock.SkipLocked(), doclock.Sort(byPriority), doclock.Into(&j))
		if errors.Is(err, doclock.ErrNotFound) {
			return nil, ErrNoneFree
		}
		if err != nil {
			return nil, err
		}
		return []Claimed{{j, func(ctx context.Context) error { return lease.UpdateAndRelease(ctx, done) }}}, nil
	}
	return err
}

// openBatch claims n documents with AcquireBatch. Each has its final write.
func openBatch(n int) func(*Subject) error {
	return func(s *Subject) error {
		locks, err := s.writelock(s.Queue(), doclock.AttemptTimeout(s.ttl*9/10))
		s.Batch = n
		s.Claim = func(ctx context.Context) (all []Claimed, err error) {
			var jobs []job
			leases, err := locks.AcquireBatch(ctx, pending, n, doclock.MaxWait(0), doclock.Sort(byPriority), doclock.Into(&jobs))
			if errors.Is(err, doclock.ErrNotFound) {
				return nil, ErrNoneFree
			}
			for i, lease := range leases {
				all = append(all, Claimed{jobs[i], func(ctx context.Context) error { return lease.UpdateAndRelease(ctx, done) }})
			}
			return all, err
		}
		return err
	}
}

// openFindAndModify marks the document, without a lock: most queues in MongoDB are
// built so. It is not safe. The document of a worker that dies stays taken for
// ever, and a cleaner that gives it back after a time lets a slow worker's final
// write overwrite the next one's.
//
//	findAndModify {state: "pending"} {$set: {state: "taken"}}, sort {priority: -1}
//	final write   updateOne {_id} {$set: {state: "done"}}
func openFindAndModify(s *Subject) error {
	s.Claim = func(ctx context.Context) ([]Claimed, error) {
		var j job
		err := unlessDeadlocked(func() error {
			return s.Queue().FindOneAndUpdate(ctx, pending, bson.M{"$set": bson.M{"state": "taken"}}, options.FindOneAndUpdate().SetSort(byPriority)).Decode(&j)
		})
		if none(err) {
			return nil, ErrNoneFree
		}
		return []Claimed{s.claimed(j)}, err
	}
	return nil
}

// claimed is a document that is marked as taken.
func (s *Subject) claimed(j job) Claimed {
	return Claimed{job: j, Finish: func(ctx context.Context) error {
		return unlessDeadlocked(func() error {
			_, err := s.Queue().UpdateOne(ctx, bson.M{"_id": j.ID}, done)
			return err
		})
	}}
}

// openUpdateMany marks n documents without a lock. It is as unsafe as the one before.
//
//	find        {state: "pending"}, sort {priority: -1}, limit n
//	updateMany  {_id: {$in: …}, state: "pending"} {$set: {state: "taken", by: …}}
//	find        {_id: {$in: …}, by: …}, if others have taken some of them
func openUpdateMany(n int64) func(*Subject) error {
	return func(s *Subject) error {
		s.Batch = int(n)
		s.Claim = func(ctx context.Context) (all []Claimed, err error) {
			var jobs []job
			if err := s.jobs(ctx, &jobs, pending, options.Find().SetSort(byPriority).SetLimit(n)); err != nil || len(jobs) == 0 {
				return nil, cmp.Or(err, ErrNoneFree)
			}
			var ids bson.A
			for _, j := range jobs {
				ids = append(ids, j.ID)
			}
			by, marked := bson.NewObjectID(), int64(0)
			err = unlessDeadlocked(func() error {
				r, err := s.Queue().UpdateMany(ctx, bson.M{"_id": bson.M{"$in": ids}, "state": "pending"}, bson.M{"$set": bson.M{"state": "taken", "by": by}})
				if r != nil {
					marked = r.ModifiedCount
				}
				return err
			})
			if err == nil && marked == 0 {
				err = ErrNoneFree
			}
			if err == nil && marked < int64(len(jobs)) {
				jobs = nil
				err = s.jobs(ctx, &jobs, bson.M{"_id": bson.M{"$in": ids}, "by": by})
			}
			if err != nil {
				return nil, err
			}
			for _, j := range jobs {
				all = append(all, s.claimed(j))
			}
			return all, nil
		}
		return nil
	}
}

func (s *Subject) jobs(ctx context.Context, all *[]job, filter any, opts ...options.Lister[options.FindOptions]) error {
	cursor, err := s.Queue().Find(ctx, filter, opts...)
	if err != nil {
		return err
	}
	return cursor.All(ctx, all)
}
