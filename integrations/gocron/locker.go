package gocronlock

import (
	"context"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"github.com/go-co-op/gocron/v2"
)

// Locker locks the jobs of schedulers. It is a gocron.Locker, for
// gocron.WithDistributedLocker or, with another time for a job,
// gocron.WithDistributedJobLocker.
type Locker struct {
	locks *writelock.Locker
	least time.Duration
}

// NewLocker makes a Locker whose locks are held for at least a time from the grant
// on, by the server's clock, also if the job is over or its process has died before.
// Give half of the time between two ticks of the job that has the shortest. See
// [doclock.HoldAtLeast], which says what is allowed.
//
// So two runs of a job begin at least so far apart, and never at the same time. From
// this follows, of a job with the same ticks in all instances:
//
//   - No tick runs twice if the instances ask for it within that time of each other.
//     To this the difference of their clocks counts, and the time from the tick to
//     the lock's grant. An instance that was stopped, and asks later, may run a tick
//     again.
//   - Each tick runs once if the three together, that time, a [doclock.ClockTolerance]
//     and that difference, are less than the time between two ticks, no run
//     outlasts its tick, and the server answers.
//   - While a run lasts, other ticks are skipped. If its instance dies, they are
//     skipped until the lease ends: for a [doclock.TTL] at most.
//
// The ticks of gocron.DurationJob are different in each instance, unless
// gocron.WithStartAt says when they begin. Then give a time that with the
// ClockTolerance is a little shorter than the job's: the runs begin between the two
// apart.
//
// The Locker that it uses needs [doclock.Upsert]; its other options hold for the jobs.
// A job that is stuck keeps its lock for ever, unless [doclock.HoldAtMost] ends it.
func NewLocker(locks *writelock.Locker, least time.Duration) *Locker {
	return &Locker{locks, least}
}

// Lock makes one attempt to lock the document with this _id, which is the job's name,
// and renews the lease until Unlock. It never waits for another holder. An error is a
// [doclock.ErrNotAcquired], and if another instance runs the job or has just run it, a
// [doclock.ErrConflict]. gocron then skips the tick, and shows the error to
// gocron.AfterLockError only: without that listener a wrong configuration looks like
// a job that others run.
//
// Give each job a name by gocron.WithName. The default is the name of its function,
// and jobs of one name exclude each other. Under gocron.LimitModeWait a tick asks
// when its turn has come, which may be after others have run it.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.locks.Acquire(ctx, doclock.ID(key), doclock.MaxWait(0), doclock.HoldAtLeast(l.least))
	if err != nil {
		return nil, err
	}
	lease.KeepAlive(context.WithoutCancel(ctx)) // gocron ends ctx at a shutdown, while the job may go on
	return lock{lease}, nil
}

// lock is the lock of one run.
type lock struct{ lease *doclock.Lease }

// Unlock implements gocron.Lock. gocron ignores its error, which is that of
// [doclock.Lease.Release]: [doclock.LogTo] shows a lease that was lost.
func (l lock) Unlock(ctx context.Context) error {
	return l.lease.Release(context.WithoutCancel(ctx))
}
