package subjects

import (
	"context"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// openWrite is the lock of writelock: `Acquire` and `Release`, one command each; a
// read-modify-write is `Acquire` with doclock.Into and `UpdateAndRelease`.
func openWrite(s *Subject) error {
	locks, err := s.writelock(s.Docs)
	if err != nil {
		return err
	}
	s.Lock = func(ctx context.Context, key string) (Unlock, error) {
		lease, err := locks.Acquire(ctx, doclock.ID(key))
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}
	s.Increment = func(ctx context.Context, key string) error {
		var doc Document
		lease, err := locks.Acquire(ctx, doclock.ID(key), doclock.Into(&doc))
		if err != nil {
			return err
		}
		return lease.UpdateAndRelease(context.WithoutCancel(ctx), bson.M{"$set": bson.M{"count": doc.Count + 1}})
	}
	return nil
}

// writelock is a locker of the documents, which lives as long as the subject.
func (s *Subject) writelock(docs *mongo.Collection, opts ...doclock.Option) (*writelock.Locker, error) {
	locks, err := writelock.New(docs, append(opts, doclock.TTL(s.ttl))...)
	if err == nil {
		s.closing(locks)
	}
	return locks, err
}

// closing waits for a locker's background work when the subject is closed.
func (s *Subject) closing(l interface{ Close(context.Context) error }) {
	s.closers = append(s.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_ = l.Close(ctx)
	})
}
