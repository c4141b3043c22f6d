// Package cronlock runs the jobs of github.com/robfig/cron/v3 once for each tick,
// however many instances of a program have the same crontab. It is a module of its
// own, so that doclock itself doesn't depend on cron.
//
//	locks, err := writelock.New(db.Collection("jobs"), doclock.Upsert())
//	once := cronlock.Once(locks, "clean up", 30*time.Second, cron.DefaultLogger) // half of the time between two ticks
//	c := cron.New()
//	_, err = c.AddJob("* * * * *", once(cron.FuncJob(cleanUp)))
//
// The collection holds nothing but locks. Its documents have the names of the jobs
// as their _id, and [doclock.Upsert] makes them.
package cronlock

import (
	"context"
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"github.com/robfig/cron/v3"
)

// Once makes the wrapper of one job. At each tick it makes one attempt to lock the
// document with this _id, and runs the job under the lock, or skips the tick. A
// wrapper of several jobs would let one of them run at a time, so don't give it to
// cron.WithChain.
//
// The lock is held for at least the given time from the grant on, by the server's
// clock, also if the job is over or its process has died before. Give half of the
// time between two ticks. See [doclock.HoldAtLeast], which says what is allowed.
//
// So two runs of the job begin at least so far apart, and never at the same time. From
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
// The ticks of "@every 5m" begin with each instance's start, and are different. Then
// give a time that with the [doclock.ClockTolerance] is a little shorter than the one
// between two ticks: the runs begin between the two apart.
//
// The logger gets a "skip" for each tick that another run is in the way of. All else
// is an error: the lock could not be asked for, or it was lost while the job ran, so
// that another run may have begun ([doclock.ErrLost]).
//
// The Locker needs [doclock.Upsert]; its other options hold for the job. A job that is
// stuck keeps its lock for ever, unless [doclock.HoldAtMost] ends it.
func Once(locks *writelock.Locker, name string, least time.Duration, logger cron.Logger) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			err := locks.Do(context.Background(), doclock.ID(name), func(context.Context, *doclock.Lease) error {
				job.Run()
				return nil
			}, doclock.MaxWait(0), doclock.HoldAtLeast(least))
			if errors.Is(err, doclock.ErrConflict) {
				logger.Info("skip", "job", name, "reason", err)
			} else if err != nil {
				logger.Error(err, "the lock of a job", "job", name)
			}
		})
	}
}
