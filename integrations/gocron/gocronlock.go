// Package gocronlock runs the jobs of github.com/go-co-op/gocron/v2 once for each
// tick, however many instances of a program have the same scheduler. It is a module
// of its own, so that doclock itself doesn't depend on gocron.
//
//	locks, err := writelock.New(db.Collection("jobs"), doclock.Upsert())
//	locker := gocronlock.NewLocker(locks, 30*time.Second) // half of the time between two ticks
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//	_, err = s.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(cleanUp), gocron.WithName("clean up"))
//
// The collection holds nothing but locks, by the jobs' names.
// A [Locker] asks the server at each tick of each job, and any instance may run it.
// While one runs, no other begins, also at later ticks. Take it if each tick counts.
//
// An [Elector] asks nothing at a tick: one instance leads, and runs all jobs. Ticks
// during a change of leaders are run by nobody. A job that outlasts its tick may
// overlap with the next run: gocron.WithSingletonMode prevents it in one instance only.
package gocronlock

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"github.com/go-co-op/gocron/v2"
)

// Locker locks the jobs of schedulers: see gocron.WithDistributedLocker, and for a job
// with another time gocron.WithDistributedJobLocker.
type Locker struct {
	locks *writelock.Locker
	least time.Duration
}

// NewLocker makes a Locker whose locks are held for at least a time from the grant
// on, by the server's clock, also if the job is over or its process has died before:
// see [doclock.HoldAtLeast]. Give half of the time between two ticks. So two runs of a
// job begin at least so far apart, and never at the same time. If the instances have
// the same ticks (those of a DurationJob begin with each, unless WithStartAt says when):
//
//   - No tick runs twice if the instances ask for it within that time of each other,
//     by clocks that differ and after delays. One that was stopped may run it again.
//   - Each tick runs once if that time, a [doclock.ClockTolerance] and these
//     differences together are less than the time between two ticks, no run outlasts
//     its tick, and the server answers.
//   - While a run lasts, other ticks are skipped. If its instance dies, they are
//     skipped until the lease ends: for a [doclock.TTL] at most.
//
// locks needs [doclock.Upsert]; its other options hold for the jobs. A job that is
// stuck keeps its lock for ever, unless [doclock.HoldAtMost] ends it.
func NewLocker(locks *writelock.Locker, least time.Duration) *Locker {
	return &Locker{locks, least}
}

// Lock makes one attempt to lock the job of this name, and renews the lease until
// Unlock. An error is a [doclock.ErrNotAcquired], and if another instance runs the job
// or has just run it, a [doclock.ErrConflict]. gocron then skips the tick, and shows
// the error to gocron.AfterLockError only: without it a wrong configuration looks like
// a job that others run. Jobs of one gocron.WithName exclude each other.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.locks.Acquire(ctx, doclock.ID(key), doclock.MaxWait(0), doclock.HoldAtLeast(l.least))
	if err != nil {
		return nil, err
	}
	lease.KeepAlive(context.WithoutCancel(ctx)) // gocron ends ctx at a shutdown, while the job may go on
	return lock{lease}, nil
}

// lock is the lock of one run.
type lock struct{ lease doclock.Lease }

// Unlock releases. gocron ignores the error: [doclock.LogTo] shows a lease that was lost.
func (l lock) Unlock(ctx context.Context) error {
	return l.lease.Release(context.WithoutCancel(ctx))
}

// Elector answers whether this instance leads: see gocron.WithDistributedElector.
type Elector struct {
	locks *writelock.Locker
	name  string
	apart time.Duration
	lease atomic.Pointer[doclock.Lease] // of the last term
}

// NewElector makes an Elector that campaigns for the document with this _id, while
// [Elector.Run] runs. For the time apart after it got the lock, a new leader still
// says no. So no tick runs twice, if the instances ask within that time of each other.
// Ticks in that time, and between the end of a leader and that of its lease, are run by
// nobody. The Locker needs [doclock.Upsert], or the document must exist.
func NewElector(locks *writelock.Locker, name string, apart time.Duration) *Elector {
	return &Elector{locks: locks, name: name, apart: apart}
}

// Run campaigns, and leads, until ctx ends; then it releases the lock. Run it in a
// goroutine of its own, once at a time. It returns the errors of
// [writelock.Locker.Lead]. After one that is not ctx's this instance leads no more.
func (e *Elector) Run(ctx context.Context) error {
	return e.locks.Lead(ctx, doclock.ID(e.name), func(ctx context.Context, lease doclock.Lease) error {
		select {
		case <-time.After(e.apart):
			e.lease.Store(&lease)
			<-ctx.Done()
		case <-ctx.Done():
		}
		return ctx.Err()
	})
}

// IsLeader returns nil while this instance leads, and sends nothing. From the moment
// when the lease is over by this machine's clocks, which is before the server lets
// another instance in, it returns an error: [doclock.ErrLost], or
// [doclock.ErrReleased] after the end of Run, or [doclock.ErrNotAcquired] before the
// first term. gocron then skips the tick. A job that has begun isn't ended by a loss.
func (e *Elector) IsLeader(context.Context) error {
	lease := e.lease.Load()
	if lease == nil {
		return fmt.Errorf("%w: this instance has not led %q yet", doclock.ErrNotAcquired, e.name)
	}
	return (*lease).Err()
}
