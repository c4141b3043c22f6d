package doclock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Lease is a lock that was granted. It is safe for concurrent use. Its writes
// are serialised among themselves, renewals run between them, and giving the
// lock away waits for both. The zero Lease behaves as lost.
//
// Two things end a lease. The holder's belief ([Lease.Done], [Lease.Err]) ends
// a TTL after the last renewal was sent, by this machine's clocks, and that is
// before the server lets anybody in. The server's verdict is the presence of
// the entry in the document: it is given by every command, and wins. So
// [Lease.Update] and [Lease.Release] are sent even after the local end, and
// succeed if nobody was let in meanwhile. Once the server has said that the
// entry is gone, the lease stays lost: nothing is written under it any more,
// and Release returns [ErrLost] whatever becomes of its own command.
//
// A caller whose context ends during a command gets its answer at once, with
// [ErrOutcomeUnknown]; the command runs to its end in the background, and the
// lease's next one waits for it.
type Lease struct {
	leases *Leases
	engine *engine.Engine
	ops    *attempt.Group
	grant  engine.Grant
	share  *share // or nil

	over context.Context // ends with the belief, its cause says why
	stop context.CancelCauseFunc

	writing  gate // one guarded write at a time
	renewing gate // one renewal at a time
	writes   int64

	mu        sync.Mutex
	valid     validity
	watch     *time.Timer
	followers []follower
	lost      bool     // the server has said so; a lease whose time ran out may still stand there
	gone      *verdict // set once the lock is being given away
	after     func()   // is called with the verdict, or nil
}

// look ends the belief when its time is up. It looks a few times more than the
// renewals make necessary, for the wall clock's sake, to which no timer
// listens.
func (l *Lease) look() {
	if l.share != nil {
		l.share.base.look()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over.Err() != nil {
		return
	}
	if l.valid.left(l.engine.Clocks()) <= 0 {
		l.end(ErrLost)
		return
	}
	l.watch.Reset(l.nextLook())
}

func (l *Lease) nextLook() time.Duration {
	return max(0, min(l.valid.left(l.engine.Clocks()), l.valid.ttl/4))
}

// finish ends the belief for a reason other than time.
func (l *Lease) finish(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch != nil {
		l.watch.Stop()
	}
	l.end(cause)
}

// lose ends the lease by the server's verdict, which is remembered.
func (l *Lease) lose() {
	l.mu.Lock()
	l.lost = true
	l.mu.Unlock()
	l.finish(ErrLost)
}

// isLost says that the server has said so.
func (l *Lease) isLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// ID is the entry's id in the document, unique to this lease.
func (l *Lease) ID() uuid.UUID { return l.grant.ID }

// Tag is the tag that the lease was acquired under.
func (l *Lease) Tag() string { return l.grant.Tag }

// Fence is the lease's token: on one document, tokens increase from grant to
// grant, so whatever is written under a lease can be ordered by it elsewhere.
func (l *Lease) Fence() int64 { return l.grant.Fence }

// DocumentID is the _id of the locked document.
func (l *Lease) DocumentID() bson.RawValue { return l.grant.DocID }

// Guard is a filter that matches the document as long as the lock is held in
// it: {_id: …, "lock.tags.<tag>": {$elemMatch: {id: …, fence: …}}}. It serves
// any write of the holder's own, in bulk or in a transaction too, with two
// exceptions: never use it with an upsert, nor with the positional operator
// `.$`, for the server may take the position from the lock's array. It doesn't
// number the write: one that is sent again after a lost reply is applied again,
// as [Lease.Update] is not. The Guard of a released lease matches nothing.
func (l *Lease) Guard() bson.D {
	if l.engine == nil || l.given() != nil {
		return bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{}}}}}
	}
	return l.engine.Guard(l.grant)
}

// Remaining is how long the holder may go on without a renewal; 0 when the
// lease is over.
func (l *Lease) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return max(0, l.entry().left())
}

// Done is closed when the holder may not believe in the lease any longer: at
// the end of its time, when it is found lost, or when it is being released.
func (l *Lease) Done() <-chan struct{} {
	if l.engine == nil {
		return closed
	}
	l.look()
	return l.over.Done()
}

// Err is nil while the holder may believe in the lease, and then [ErrLost] or
// [ErrReleased].
func (l *Lease) Err() error {
	if l.engine == nil {
		return ErrLost
	}
	l.look()
	return context.Cause(l.over)
}

// Renew extends the lease to a TTL from now, in one command; [Lease.KeepAlive]
// does it by itself. Errors that may pass are retried while ctx and the lease
// last. It returns [ErrLost] where the entry is gone or the lease's time is
// up, and then sends nothing: a lease is never revived.
func (l *Lease) Renew(ctx context.Context) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	entry := l.entry()
	if err := l.enter(ctx, entry.renewing); err != nil {
		return err
	}
	return l.run(ctx, func(patient context.Context) error {
		defer entry.renewing.leave()
		return entry.renew(patient)
	})
}

func (l *Lease) renew(ctx context.Context) error {
	return l.renewBy(ctx, func(ctx context.Context) (engine.Answer, error) { return l.engine.Renew(ctx, l.grant) })
}

// renewBy renews with a command that finds the lease's own entry or none.
func (l *Lease) renewBy(ctx context.Context, send func(context.Context) (engine.Answer, error)) error {
	if err := l.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.Remaining())
	defer cancel()
	var got engine.Answer
	_, err := attempt.Settle(ctx, l.engine.Attempt(l.grant.Tag), func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, l.Remaining())
		defer cancel()
		got, err = send(ctx)
		return err
	})
	if err != nil {
		if over := l.Err(); over != nil {
			return oneline.Join(over, err)
		}
		return fmt.Errorf("doclock: renew: %w", err)
	}
	if got.Outcome == engine.Lost {
		l.lose()
		return ErrLost
	}
	l.extend(validity{from: got.Sent, ttl: l.engine.Lease(l.grant.Tag)})
	return l.Err()
}

// left is the time that the belief would have, had it not been given up.
func (l *Lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.valid.left(l.engine.Clocks())
}

// since is what the belief is anchored at.
func (l *Lease) since() engine.Reading {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.valid.from
}

// kept is how long the server may still keep the entry, and at least an
// attempt.
func (l *Lease) kept() time.Duration {
	return max(l.left()+l.engine.Tolerance, l.engine.Attempt(l.grant.Tag))
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
