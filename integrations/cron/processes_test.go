package cronlock_test

import (
	"context"
	"testing"

	cronlock "github.com/doclock/doclock/integrations/cron"
	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/internal/ticks"
	"github.com/robfig/cron/v3"
)

func TestMain(m *testing.M) {
	child.Main("instance", instance)
	mongotest.Main(m)
}

const held = ticks.Period / 2

func TestProcesses(t *testing.T) {
	t.Parallel()
	ticks.Try(t, "instance", ticks.Promise{Apart: held, Each: true})
}

// told tells a fire of its refusal.
type told struct{ *ticks.Fire }

func (f told) Info(_ string, values ...any)        { f.Refused(values[len(values)-1].(error)) }
func (f told) Error(err error, _ string, _ ...any) { f.Refused(err) }

// instance runs a Cron of all jobs until ctx ends. Each tick has a wrapper of its own, which knows the fire.
func instance(ctx context.Context, i ticks.Instance) error {
	locks, fire, err := i.Connect()
	if err != nil {
		return err
	}
	c := cron.New()
	for job := range ticks.Jobs {
		c.Schedule(late{everyTick, i.Behind}, cron.FuncJob(func() {
			f := fire(job)
			ran := false
			cronlock.Once(locks, job, held, told{f})(cron.FuncJob(func() { f.Run(); ran = true })).Run()
			if ran {
				f.Released()
			}
		}))
	}
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
	return nil
}
