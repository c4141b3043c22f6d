package gocronlock

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
)

// Elector answers whether this instance leads. It is a gocron.Elector, for
// gocron.WithDistributedElector.
type Elector struct {
	locks *writelock.Locker
	name  string
	apart time.Duration
	lease atomic.Pointer[doclock.Lease] // of the last term
}

// NewElector makes an Elector that campaigns for the document with this _id, while
// [Elector.Run] runs. The clocks of the instances may differ by apart: for so long
// after it got the lock, a new leader still says no.
//
// So no tick runs twice, also if the leader changes between the ticks of two clocks,
// if the instances ask within that time of each other. Ticks in that time, and those
// between the end of a leader and the end of its lease, are run by nobody.
//
// The Locker needs [doclock.Upsert], or the document must exist.
func NewElector(locks *writelock.Locker, name string, apart time.Duration) *Elector {
	return &Elector{locks: locks, name: name, apart: apart}
}

// Run campaigns, and leads, until ctx ends; then it releases the lock. Run it in a
// goroutine of its own, once at a time. It returns the errors of
// [writelock.Locker.Lead]; with ctx's error it has ended as it should. After any
// other error this instance leads no more.
func (e *Elector) Run(ctx context.Context) error {
	return e.locks.Lead(ctx, doclock.ID(e.name), func(ctx context.Context, lease *doclock.Lease) error {
		select {
		case <-time.After(e.apart):
			e.lease.Store(lease)
			<-ctx.Done()
		case <-ctx.Done():
		}
		return ctx.Err()
	})
}

// IsLeader returns nil while this instance leads, and sends nothing. From the moment
// when the lease is over by this machine's clocks, which is before the server lets
// another instance in, it returns an error: [doclock.ErrLost], or
// [doclock.ErrReleased] after the end of Run. Before the first term it returns
// [doclock.ErrNotAcquired]. gocron then skips the tick.
//
// A job that has begun isn't ended by a loss.
func (e *Elector) IsLeader(context.Context) error {
	lease := e.lease.Load()
	if lease == nil {
		return fmt.Errorf("%w: this instance has not led %q yet", doclock.ErrNotAcquired, e.name)
	}
	return lease.Err()
}
