package lease

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
// lock away waits for both. The zero Handle behaves as lost.
//
// Two things end a lease. The holder's belief ([Handle.Done], [Handle.Err]) ends
// a TTL after the last renewal was sent, by this machine's clocks, and that is
// before the server lets anybody in. The server's verdict is the presence of
// the entry in the document: it is given by every command, and wins. So
// [Handle.Update] and [Handle.Release] are sent even after the local end, and
// succeed if nobody was let in meanwhile. Once the server has said that the
// entry is gone, the lease stays lost: nothing is written under it any more,
// and Release returns [ErrLost] whatever becomes of its own command.
//
// A caller whose context ends during a command gets its answer at once, with
// [ErrOutcomeUnknown]; the command runs to its end in the background, and the
// lease's next one waits for it.
type Handle struct {
	leases *Holds
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
func (l *Handle) look() {
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

func (l *Handle) nextLook() time.Duration {
	return max(0, min(l.valid.left(l.engine.Clocks()), l.valid.ttl/4))
}

// finish ends the belief for a reason other than time.
func (l *Handle) finish(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch != nil {
		l.watch.Stop()
	}
	l.end(cause)
}

// lose ends the lease by the server's verdict, which is remembered.
func (l *Handle) lose() {
	l.mu.Lock()
	l.lost = true
	l.mu.Unlock()
	l.finish(ErrLost)
}

// isLost says that the server has said so.
func (l *Handle) isLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Granted tells a lease that was granted from the zero one.
func (l *Handle) Granted() bool { return l.engine != nil }

// ID implements doclock.Lease.
func (l *Handle) ID() uuid.UUID { return l.grant.ID }

// Tag implements doclock.Lease.
func (l *Handle) Tag() string { return l.grant.Tag }

// Fence implements doclock.Lease.
func (l *Handle) Fence() int64 { return l.grant.Fence }

// DocumentID implements doclock.Lease.
func (l *Handle) DocumentID() bson.RawValue { return l.grant.DocID }

// Guard implements doclock.Lease.
func (l *Handle) Guard() bson.D {
	if l.engine == nil || l.given() != nil {
		return bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{}}}}}
	}
	return l.engine.Guard(l.grant)
}

// Remaining implements doclock.Lease.
func (l *Handle) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return max(0, l.entry().left())
}

// Done implements doclock.Lease.
func (l *Handle) Done() <-chan struct{} {
	if l.engine == nil {
		return closed
	}
	l.look()
	return l.over.Done()
}

// Err implements doclock.Lease.
func (l *Handle) Err() error {
	if l.engine == nil {
		return ErrLost
	}
	l.look()
	return context.Cause(l.over)
}

// Renew implements doclock.Lease.
func (l *Handle) Renew(ctx context.Context) error {
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

func (l *Handle) renew(ctx context.Context) error {
	return l.renewBy(ctx, func(ctx context.Context) (engine.Answer, error) { return l.engine.Renew(ctx, l.grant) })
}

// renewBy renews with a command that finds the lease's own entry or none.
func (l *Handle) renewBy(ctx context.Context, send func(context.Context) (engine.Answer, error)) error {
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
func (l *Handle) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.valid.left(l.engine.Clocks())
}

// since is what the belief is anchored at.
func (l *Handle) since() engine.Reading {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.valid.from
}

// kept is how long the server may still keep the entry, and at least an
// attempt.
func (l *Handle) kept() time.Duration {
	return max(l.left()+l.engine.Tolerance, l.engine.Attempt(l.grant.Tag))
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
