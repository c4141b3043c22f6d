// Package gocronlock runs the jobs of github.com/go-co-op/gocron/v2 once for each
// tick, however many instances of a program have the same scheduler. It is a module
// of its own, so that doclock itself doesn't depend on gocron.
//
//	locks, err := writelock.New(db.Collection("jobs"), doclock.Upsert())
//	locker := gocronlock.NewLocker(locks, 30*time.Second) // half of the time between two ticks
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//	_, err = s.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(cleanUp), gocron.WithName("clean up"))
//
// The collection holds nothing but locks. Its documents have the names of the jobs
// as their _id, and [doclock.Upsert] makes them.
//
// # Locker or Elector
//
// A [Locker] asks the server at each tick of each job, and any instance may run it.
// While one runs, no other begins, also at later ticks. Take it if each tick counts.
//
// An [Elector] asks nothing at a tick: one instance leads, and runs all jobs. Ticks
// during a change of leaders are run by nobody. A job that outlasts its tick may
// overlap with the next run; gocron.WithSingletonMode prevents that in one instance,
// but not during a change of leaders.
//
// gocron uses one of them: a scheduler that has an Elector never asks its Locker.
package gocronlock
