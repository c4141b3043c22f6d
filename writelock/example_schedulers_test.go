package writelock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
)

// Each instance of a program has the same crontab. A wrapper of its own runs each job
// once for each tick.
func Example_crontab() {
	mem := locktest.Start()
	defer mem.Close()
	jobs := mem.Collection("jobs")
	locks, err := writelock.New(jobs, doclock.Upsert())
	check(err)

	once := func(name string, least time.Duration, job func()) func() {
		return func() {
			err := locks.Do(context.Background(), doclock.ID(name), func(context.Context, doclock.Lease) error {
				job()
				return nil
			}, doclock.MaxWait(0), doclock.HoldAtLeast(least))
			if err != nil && !errors.Is(err, doclock.ErrConflict) { // that is another instance's tick
				log.Print(name, ": ", err)
			}
		}
	}
	tick := once("clean up", 30*time.Second, func() { fmt.Println("cleaned up") }) // half of the time between two ticks
	tick()                                                                         // by robfig/cron, after c.AddFunc("* * * * *", tick)
	tick()                                                                         // of another instance, whose clock is late
	mem.Advance(time.Minute)
	tick()
	// Output:
	// cleaned up
	// cleaned up
}

// Each instance has the same scheduler, and it runs in the leader.
func Example_scheduler() {
	mem := locktest.Start()
	defer mem.Close()
	jobs := mem.Collection("jobs")
	const apart = 10 * time.Millisecond // by so much the clocks may differ
	running, ended := make(chan bool), make(chan error)
	newScheduler := func(instance string) (start func() error, shutdown func()) {
		start = func() error { fmt.Println(instance, "enqueues"); running <- true; return nil }
		return start, func() { fmt.Println(instance, "stops") }
	}
	run := func(ctx context.Context, instance string) error {
		locks, err := writelock.New(jobs, doclock.Upsert())
		check(err)
		return locks.Lead(ctx, doclock.ID("scheduler"), func(ctx context.Context, _ doclock.Lease) error {
			select {
			case <-time.After(apart): // the leader before has enqueued the ticks until then
			case <-ctx.Done():
				return ctx.Err()
			}
			start, shutdown := newScheduler(instance) // asynq.NewScheduler and Register: one that was shut down can't be started again
			if err := start(); err != nil {
				return err
			}
			defer shutdown()
			<-ctx.Done()
			return ctx.Err()
		})
	}
	for _, instance := range []string{"Ada", "Bob"} {
		ctx, stop := context.WithCancel(context.Background())
		go func() { ended <- run(ctx, instance) }()
		<-running
		stop() // it is stopped, or dies
		fmt.Println(<-ended)
	}
	// Output:
	// Ada enqueues
	// Ada stops
	// context canceled
	// Bob enqueues
	// Bob stops
	// context canceled
}
