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

// New makes a Locker. It sends nothing; [doclock.CheckServer] asks the server. The
// lock's commands go to the primary with majority write concern, whatever the
// collection's own settings are. An option that can't be used is a
// [doclock.ErrInvalidArgument].
func New(coll *mongo.Collection, opts ...doclock.Option) (*Locker, error) {
	locks, err := multilock.New(coll, relations.Exclusive(), opts...)
	if err != nil {
		return nil, err
	}
	return &Locker{locks}, nil
}

// TryAcquire acquires the lock, or fails, in one command and an [doclock.AttemptTimeout] at
// most. If somebody holds it, the error is a [*doclock.ConflictError] that names the holder,
// and nothing in the document is changed. Every error is a [doclock.ErrNotAcquired], beside
// its cause: package multilock lists the causes.
func (l *Locker) TryAcquire(ctx context.Context, filter any, opts ...doclock.AcquireOption) (doclock.Lease, error) {
	return l.locks.TryAcquire(ctx, filter, Tag, opts...)
}

// Acquire acquires the lock, and waits for it until ctx ends or the time of
// [doclock.MaxWait] is over. Both bound the wait, and not the lease, which nothing renews:
// see [doclock.Lease.KeepAlive] and [Locker.Do]. A release by the same Locker hands the
// lock over to its next waiter. Between processes there is no order: [relations.Semaphore]
// of 1 is the same lock with a queue. [multilock.Locker.Acquire] says more.
func (l *Locker) Acquire(ctx context.Context, filter any, opts ...doclock.AcquireOption) (doclock.Lease, error) {
	return l.locks.Acquire(ctx, filter, Tag, opts...)
}

// AcquireBatch claims up to n documents that match the filter and are free, by three commands
// for all, and waits until there is one. Work on each under the context of its own
// [doclock.Lease.KeepAlive]. [multilock.Locker.AcquireBatch] has the rest.
func (l *Locker) AcquireBatch(ctx context.Context, filter any, n int, opts ...doclock.AcquireOption) (multilock.Leases, error) {
	return l.locks.AcquireBatch(ctx, filter, Tag, n, opts...)
}

// Want describes a lease for [multilock.AcquireAll] and [multilock.DoAll], by the
// arguments of [Locker.Acquire]. The filter must demand an equal _id. Want checks
// nothing and sends nothing: those two do.
func (l *Locker) Want(filter any, opts ...doclock.AcquireOption) multilock.Want {
	return l.locks.Want(filter, Tag, opts...)
}

// Do acquires the lock as [Locker.Acquire] does, holds and renews it while fn runs, and
// releases it whatever happens: return, panic, or Goexit. fn's context ends with cause
// [doclock.ErrLost] at the moment when the lease is lost. Do's error is fn's error, joined
// with the release's. It is at most one of three, and that one speaks of this call's lock:
//   - [doclock.ErrNotAcquired]: fn was never called;
//   - [doclock.ErrLost]: others may have been granted while fn was working;
//   - [doclock.ErrOutcomeUnknown]: nobody knows whether others were granted.
//
// After the last two, undo what fn wrote to other places. [multilock.Locker.Do] says more.
func (l *Locker) Do(ctx context.Context, filter any, fn func(context.Context, doclock.Lease) error, opts ...doclock.AcquireOption) error {
	return l.locks.Do(ctx, filter, Tag, fn, opts...)
}

// Resume makes a lease of the entry that [doclock.Lease.Detach] has left to the users
// of the token, in one command. It doesn't wait: the lock was held all the time. The filter
// must demand an equal _id at its top level. The leases of one token exclude all others, and
// not each other. [multilock.Locker.Resume] has the errors and the options.
func (l *Locker) Resume(ctx context.Context, filter any, token string, opts ...doclock.AcquireOption) (doclock.Lease, error) {
	return l.locks.Resume(ctx, filter, token, opts...)
}

// Touch extends the entry of a token to a TTL from now, in one command, and makes no
// lease: a heartbeat. The TTL is the Locker's, or that of [doclock.TTL]. Filter and token
// are those of Resume. [multilock.Locker.Touch] has the errors.
func (l *Locker) Touch(ctx context.Context, filter any, token string, opts ...doclock.AcquireOption) error {
	return l.locks.Touch(ctx, filter, token, opts...)
}

// Close shuts the Locker down. It refuses new acquires, wakes waiters with
// [doclock.ErrClosed], ends the context of a Lead's function, and waits for the functions of
// Do and Lead until ctx ends. Its error names what is left. [multilock.Locker.Close] has the
// rest.
func (l *Locker) Close(ctx context.Context) error { return l.locks.Close(ctx) }
