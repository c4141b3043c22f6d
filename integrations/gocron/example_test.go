package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/doclock/doclock"
	gocronlock "github.com/doclock/doclock/integrations/gocron"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
)

// Two instances have the same job, and one of them runs it.
func Example() {
	server := locktest.New() // of the program: a MongoDB
	var asked sync.WaitGroup
	for range 2 {
		jobs, err := server.Collection("jobs")
		check(err)
		locks, err := writelock.New(jobs, doclock.Upsert())
		check(err)
		locker := gocronlock.NewLocker(locks, 12*time.Hour) // half of the time between two ticks
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		check(err)
		asked.Add(1)
		_, err = s.NewJob(
			gocron.CronJob("0 4 * * *", false),
			gocron.NewTask(func() { fmt.Println("cleaned up") }),
			gocron.WithName("clean up"),
			gocron.WithStartAt(gocron.WithStartImmediately()), // a tick now, for the example
			gocron.WithEventListeners(
				gocron.AfterJobRuns(func(uuid.UUID, string) { asked.Done() }),
				gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
					if errors.Is(err, doclock.ErrConflict) {
						fmt.Println("another instance runs it, or has run it")
					} else {
						log.Print(err)
					}
					asked.Done()
				})),
		)
		check(err)
		s.Start()
		defer func() { check(s.Shutdown()) }()
	}
	asked.Wait()
	// Unordered output:
	// cleaned up
	// another instance runs it, or has run it
}

// One instance leads, and runs all jobs.
func ExampleElector() {
	ctx, stop := context.WithCancel(context.Background())
	jobs, err := locktest.New().Collection("jobs")
	check(err)
	locks, err := writelock.New(jobs, doclock.Upsert())
	check(err)

	elector := gocronlock.NewElector(locks, "leader", time.Second) // by which the clocks may differ
	ended := make(chan error)
	go func() { ended <- elector.Run(ctx) }()
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	check(err)
	// …
	check(s.Shutdown())
	stop()
	fmt.Println(errors.Is(<-ended, context.Canceled))
	// Output:
	// true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
