package subjects

import (
	"context"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// An acquire is writelock's, or multilock's with a tag.
type acquire func(ctx context.Context, key string, options ...doclock.AcquireOption) (doclock.Lease, error)

func (a acquire) lock(ctx context.Context, key string) (Unlock, error) {
	lease, err := a(ctx, key)
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

func (a acquire) increment(ctx context.Context, key string) error {
	var doc Document
	lease, err := a(ctx, key, doclock.Into(&doc))
	if err != nil {
		return err
	}
	return lease.UpdateAndRelease(context.WithoutCancel(ctx), bson.M{"$set": bson.M{"count": doc.Count + 1}})
}

// openWrite is the lock of writelock: `Acquire` and `Release`, one command each; a
// read-modify-write is `Acquire` with doclock.Into and `UpdateAndRelease`.
func openWrite(s *Subject) error {
	locks, err := s.writelock(s.Docs)
	if err != nil {
		return err
	}
	write := acquire(func(ctx context.Context, key string, options ...doclock.AcquireOption) (doclock.Lease, error) {
		return locks.Acquire(ctx, bson.M{"_id": key}, options...)
	})
	s.Lock, s.Increment = write.lock, write.increment
	return nil
}

// openTagged is multilock under a preset, with its tags "write" and "read".
func openTagged(rules relations.Rules) func(*Subject) error {
	return func(s *Subject) error {
		locks, err := multilock.New(s.Docs, rules, doclock.TTL(s.ttl))
		if err != nil {
			return err
		}
		s.closing(locks)
		tagged := func(tag string) acquire {
			return func(ctx context.Context, key string, options ...doclock.AcquireOption) (doclock.Lease, error) {
				return locks.Acquire(ctx, bson.M{"_id": key}, tag, options...)
			}
		}
		s.Lock, s.LockShared, s.Increment = tagged("write").lock, tagged("read").lock, tagged("write").increment
		return nil
	}
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
