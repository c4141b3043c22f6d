package cronlock_test

import (
	"fmt"
	"log"
	"time"

	"github.com/doclock/doclock"
	cronlock "github.com/doclock/doclock/integrations/cron"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"github.com/robfig/cron/v3"
)

// Two instances have the same job, and one of them runs it.
func Example() {
	server := locktest.New() // of the program: a MongoDB
	cleanUp := cron.FuncJob(func() { fmt.Println("cleaned up") })
	for range 2 {
		jobs, err := server.Collection("jobs")
		check(err)
		locks, err := writelock.New(jobs, doclock.Upsert())
		check(err)
		c := cron.New()
		once := cronlock.Once(locks, "clean up", 30*time.Second, cron.DefaultLogger) // half of the time between two ticks
		entry, err := c.AddJob("* * * * *", once(cleanUp))
		check(err)
		c.Start()
		c.Entry(entry).WrappedJob.Run() // a tick now, for the example
		defer func() { <-c.Stop().Done() }()
	}
	// Output:
	// cleaned up
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
