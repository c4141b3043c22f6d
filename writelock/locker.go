package writelock

import (
	"context"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Tag is the tag of a write lock's entries in the document. A [multilock.Locker]
// whose rules have this tag sees them.
const Tag = "write"

// Locker locks documents of one collection, one holder for each document. It is
// safe for concurrent use. Make one, and use it for the life of the program.
type Locker struct{ locks *multilock.Locker }

// New makes a Locker, as [multilock.New] does with [relations.Exclusive]. It sends
// nothing.
func New(coll *mongo.Collection, opts ...doclock.Option) (*Locker, error) {
	locks, err := multilock.New(coll, relations.Exclusive(), opts...)
	if err != nil {
		return nil, err
	}
	return &Locker{locks}, nil
}

// TryAcquire acquires the lock, or fails, in one command; see
// [multilock.Locker.TryAcquire].
func (l *Locker) TryAcquire(ctx context.Context, filter any, opts ...doclock.AcquireOption) (*doclock.Lease, error) {
	return l.locks.TryAcquire(ctx, filter, Tag, opts...)
}

// Acquire acquires the lock, and waits for it until ctx or a MaxWait ends; see
// [multilock.Locker.Acquire].
func (l *Locker) Acquire(ctx context.Context, filter any, opts ...doclock.AcquireOption) (*doclock.Lease, error) {
	return l.locks.Acquire(ctx, filter, Tag, opts...)
}

// Want describes a lease for [multilock.AcquireAll] and [multilock.DoAll]; see
// [multilock.Locker.Want].
func (l *Locker) Want(filter any, opts ...doclock.AcquireOption) multilock.Want {
	return l.locks.Want(filter, Tag, opts...)
}

// Do holds the lock while fn runs, renews it, and releases it whatever
// happens; see [multilock.Locker.Do].
func (l *Locker) Do(ctx context.Context, filter any, fn func(context.Context, *doclock.Lease) error, opts ...doclock.AcquireOption) error {
	return l.locks.Do(ctx, filter, Tag, fn, opts...)
}

// Resume makes a lease of the entry that a detach has left to the users of the
// token; see [multilock.Locker.Resume].
func (l *Locker) Resume(ctx context.Context, token string, opts ...doclock.AcquireOption) (*doclock.Lease, error) {
	return l.locks.Resume(ctx, token, opts...)
}

// Touch extends the entry of a token and makes no lease: a heartbeat; see
// [multilock.Locker.Touch].
func (l *Locker) Touch(ctx context.Context, token string) error {
	return l.locks.Touch(ctx, token)
}

// Close refuses new acquires and waits for what runs in the background; see
// [multilock.Locker.Close].
func (l *Locker) Close(ctx context.Context) error { return l.locks.Close(ctx) }
