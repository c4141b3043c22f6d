package gocronlock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/writelock"
	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const period = 3 * time.Second // between two ticks

// everyTick is a definition of its own for each scheduler: gocron changes it.
func everyTick() gocron.JobDefinition { return gocron.CronJob("*/3 * * * * *", true) }

// behind are the clocks of three instances.
var behind = []time.Duration{0, 400 * time.Millisecond, time.Second}

// late is a clock that is behind.
type late struct {
	clockwork.Clock
	by time.Duration
}

func (c late) Now() time.Time { return c.Clock.Now().Add(-c.by) }

// clock is the clock of an instance.
func clock(by time.Duration) late { return late{clockwork.NewRealClock(), by} }

// locks makes a Locker that must come to rest before the test is over.
func locks(t *testing.T, coll *mongo.Collection) *writelock.Locker {
	t.Helper()
	l, err := writelock.New(coll, doclock.Upsert())
	must(t, err)
	t.Cleanup(func() {
		if err := l.Close(fixture.Bounded(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// start starts a scheduler of one job, in a bubble. stop ends it between two runs: gocron waits for a run by turning in a
// loop, and no time would pass.
func start(t *testing.T, when gocron.JobDefinition, job func(), opts ...gocron.SchedulerOption) (stop func()) {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	must(t, err)
	var running atomic.Int32
	_, err = s.NewJob(when, gocron.NewTask(func() {
		running.Add(1)
		defer running.Add(-1)
		job()
	}), gocron.WithName("job"))
	must(t, err)
	s.Start()
	return func() {
		for running.Load() > 0 {
			<-time.After(time.Millisecond)
		}
		must(t, s.Shutdown())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
