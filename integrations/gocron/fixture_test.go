package gocronlock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/ticks"
	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
)

const period = ticks.Period

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
