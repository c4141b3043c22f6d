package gocronlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	gocronlock "github.com/doclock/doclock/integrations/gocron"
	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/internal/ticks"
	"github.com/go-co-op/gocron/v2"
)

func TestMain(m *testing.M) {
	child.Main("locker", withLocker)
	child.Main("elector", withElector)
	mongotest.Main(m)
}

const (
	held   = ticks.Period / 2
	settle = ticks.Spread + time.Second // the second is for a process that is late
)

func TestProcessesWithALocker(t *testing.T) {
	t.Parallel()
	ticks.Try(t, "locker", ticks.Promise{Apart: held, Each: true})
}

func TestProcessesWithAnElector(t *testing.T) {
	t.Parallel()
	ticks.Try(t, "elector", ticks.Promise{Apart: settle})
}

// told is a Locker that tells the fires of the refusals, and keeps those of the grants.
type told struct {
	*gocronlock.Locker
	fire    func(job string) *ticks.Fire
	granted *sync.Map // by job
}

func (l told) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	fire := l.fire(key)
	lock, err := l.Locker.Lock(ctx, key)
	if err != nil {
		fire.Refused(err)
		return nil, err
	}
	l.granted.Store(key, fire)
	return toldLock{lock, fire}, nil
}

type toldLock struct {
	gocron.Lock
	*ticks.Fire
}

func (l toldLock) Unlock(ctx context.Context) error {
	defer l.Released()
	return l.Lock.Unlock(ctx)
}

func withLocker(ctx context.Context, i ticks.Instance) error {
	locks, fire, err := i.Connect()
	if err != nil {
		return err
	}
	locker := told{gocronlock.NewLocker(locks, held), fire, new(sync.Map)}
	granted := func(job string) *ticks.Fire {
		f, _ := locker.granted.Load(job)
		return f.(*ticks.Fire)
	}
	return schedule(ctx, i, granted, gocron.WithDistributedLocker(locker))
}

func withElector(ctx context.Context, i ticks.Instance) error {
	locks, fire, err := i.Connect()
	if err != nil {
		return err
	}
	elector := gocronlock.NewElector(locks, "leader", settle)
	go func() { _ = elector.Run(ctx) }()
	return schedule(ctx, i, fire, gocron.WithDistributedElector(elector))
}

// schedule runs a scheduler of all jobs until ctx ends.
func schedule(ctx context.Context, i ticks.Instance, fire func(job string) *ticks.Fire, opt gocron.SchedulerOption) error {
	s, err := gocron.NewScheduler(gocron.WithClock(clock(i.Behind)), opt)
	if err != nil {
		return err
	}
	for job := range ticks.Jobs {
		if _, err := s.NewJob(everyTick(), gocron.NewTask(func() { fire(job).Run() }), gocron.WithName(job)); err != nil {
			return err
		}
	}
	s.Start()
	<-ctx.Done()
	_ = s.Shutdown() // which may be tired of waiting for a job on a busy machine
	return nil
}
