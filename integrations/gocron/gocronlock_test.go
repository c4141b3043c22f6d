package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	gocronlock "github.com/doclock/doclock/integrations/gocron"
	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Two instances have the same job, and one of them runs it.
func Example() {
	server := locktest.Start() // of the program: a MongoDB
	defer server.Close()
	var asked sync.WaitGroup
	asked.Add(2)
	for range 2 {
		jobs := server.Collection("jobs")
		locks := named(jobs)
		locker := gocronlock.NewLocker(locks, 12*time.Hour) // half of the time between two ticks
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		check(err)
		_, err = s.NewJob(
			gocron.CronJob("0 4 * * *", false),
			gocron.NewTask(func() { fmt.Println("cleaned up"); asked.Done() }),
			gocron.WithName("clean up"),
			gocron.WithStartAt(gocron.WithStartImmediately()), // a tick now, for the example
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
				fmt.Println("another instance runs it, or has run it:", errors.Is(err, doclock.ErrConflict))
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
	// another instance runs it, or has run it: true
}

// named makes the Locker of named locks.
func named(coll *mongo.Collection) *writelock.Locker {
	l, err := writelock.New(coll, doclock.Upsert())
	check(err)
	return l
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

const (
	period = 3 * time.Second // between two ticks
	apart  = time.Second + 200*time.Millisecond
)

type late struct {
	clockwork.Clock
	by time.Duration // the clock is behind
}

func (c late) Now() time.Time { return c.Clock.Now().Add(-c.by) }

// instances runs three schedulers of a job, whose clocks differ by a second. By the clock of its instance each run comes so
// many ticks after the one before. stop waits for a run: gocron would turn in a loop, in which no virtual time passes.
func instances(t *testing.T, takes time.Duration, least, most int64, option func(instance int) gocron.SchedulerOption) (ran chan bool, stop func()) {
	var running sync.Mutex
	var last int64
	var all []gocron.Scheduler
	ran = make(chan bool, 2000)
	for i, by := range []time.Duration{0, 400 * time.Millisecond, time.Second} {
		c := late{clockwork.NewRealClock(), by}
		s, err := gocron.NewScheduler(gocron.WithClock(c), option(i))
		check(err)
		_, err = s.NewJob(gocron.CronJob("*/3 * * * * *", true), gocron.NewTask(func() {
			if !running.TryLock() {
				panic("two run at a time")
			}
			defer running.Unlock()
			tick := c.Now().UnixMilli() / period.Milliseconds()
			if gap := tick - last; last != 0 && (gap < least || gap > most) {
				t.Errorf("after tick %d tick %d ran", last, tick)
			}
			last = tick
			ran <- true
			<-time.After(takes)
		}), gocron.WithName("job"))
		check(err)
		s.Start()
		all = append(all, s)
	}
	return ran, func() {
		for !running.TryLock() {
			<-time.After(time.Millisecond)
		}
		for _, s := range all {
			check(s.Shutdown())
		}
	}
}

// Of 400 ticks each one runs once, but for those that a long run outlasts.
func TestEveryTickRunsOnce(t *testing.T) {
	t.Parallel()
	for takes, every := range map[time.Duration]int64{5 * time.Millisecond: 1, 5*period - period/2: 5} {
		mongotest.RunVirtual(t, takes.String(), func(t *testing.T) {
			jobs := mongotest.Database(t).Collection("jobs")
			ran, stop := instances(t, takes, every, every, func(int) gocron.SchedulerOption {
				return gocron.WithDistributedLocker(gocronlock.NewLocker(named(jobs), period/2))
			})
			time.Sleep(400*period + period/3)
			stop()
			if n := int64(len(ran)); n < 400/every {
				t.Errorf("%d ran", n)
			}
		})
	}
}

// A shutdown of gocron ends the context of Lock, while the job may go on.
func TestLockOutlastsItsContext(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		locker := gocronlock.NewLocker(named(mongotest.Database(t).Collection("jobs")), time.Second)
		ctx, shutdown := context.WithCancel(t.Context())
		lock, err := locker.Lock(ctx, "job")
		check(err)
		shutdown()
		time.Sleep(10 * time.Minute)
		if _, err := locker.Lock(t.Context(), "job"); !errors.Is(err, doclock.ErrConflict) {
			t.Errorf("Lock returned %v", err)
		}
		check(lock.Unlock(ctx))
	})
}

// campaign runs an Elector until end is called.
func campaign(e *gocronlock.Elector) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return func() { cancel(); <-ended }
}

// A leader that no longer reaches the server says no before another one says yes, and until its lease ends it says yes.
func TestElector(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		server, db := mongotest.Memory(t), mongotest.Database(t)
		own := server.Connect()
		one := gocronlock.NewElector(named(own.Database(db.Name()).Collection("jobs")), "leader", apart)
		two := gocronlock.NewElector(named(db.Collection("jobs")), "leader", apart)
		says := func(e *gocronlock.Elector, want error, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			if err := e.IsLeader(t.Context()); !errors.Is(err, want) {
				t.Errorf("IsLeader returned %v, want %v", err, want)
			}
		}
		defer campaign(one)()
		says(one, doclock.ErrNotAcquired, apart-time.Millisecond)
		says(one, nil, 10*time.Millisecond) // the driver may have to find the server before
		end := campaign(two)
		says(one, nil, 5*time.Minute)
		server.Cut(own)
		for end := time.Now().Add(10 * time.Second); one.IsLeader(t.Context()) == nil && time.Now().Before(end); {
			says(two, doclock.ErrNotAcquired, time.Millisecond)
		}
		says(one, doclock.ErrLost, 0)
		says(two, nil, 10*time.Second)
		server.Reconnect(own)
		end()
		says(two, doclock.ErrReleased, 0)
		says(one, nil, 10*time.Second)
	})
}

// A leader ends a moment after it has run a tick, and another one begins at once, whose clock has yet to reach the tick, as
// when a new version is rolled out. No tick runs twice, and at most one in a row doesn't run.
func TestNoTickRunsTwiceWhenTheLeaderChanges(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		jobs := mongotest.Database(t).Collection("jobs")
		var electors [3]*gocronlock.Elector
		ran, stop := instances(t, 0, 1, 2, func(i int) gocron.SchedulerOption {
			electors[i] = gocronlock.NewElector(named(jobs), "leader", apart)
			return gocron.WithDistributedElector(electors[i])
		})
		defer stop()
		for n := range 100 {
			end := campaign(electors[n%3])
			<-ran
			<-ran
			time.Sleep(time.Duration(n) * 10 * time.Millisecond)
			end()
		}
	})
}

func TestMain(m *testing.M) {
	child.Main("instance", instance)
	mongotest.Main(m)
}

// instance prints each tick that it runs. A tick is a job of its own: it knows its name however late it is.
func instance(ctx context.Context, of [2]string) error {
	client, err := mongo.Connect(options.Client().ApplyURI(of[0]))
	check(err)
	locks := named(client.Database(of[1]).Collection("jobs"))
	elector := gocronlock.NewElector(locks, "leader", apart) // by so much the clocks may differ
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	check(err)
	for at := time.Now().Unix() + 2; len(s.Jobs()) < 200; at++ {
		when := gocron.OneTimeJob(gocron.OneTimeJobStartDateTime(time.Unix(at, 0)))
		_, _ = s.NewJob(when, gocron.NewTask(func() { fmt.Println(at) })) // refused if it is late: the tick is over
	}
	s.Start()
	if err := elector.Run(ctx); ctx.Err() == nil {
		return err
	}
	return s.Shutdown()
}

// Of three processes one leads. It is killed (-9), and exactly one of the others takes over. No tick runs twice.
func TestALeaderIsKilled(t *testing.T) {
	type run struct {
		by   int
		tick string
	}
	runs, processes, of := make(chan run, 1000), [3]*child.Process{}, [2]string{mongotest.URI(t), mongotest.Database(t).Name()}
	for i := range processes {
		p, err := child.Start(t.Context(), "instance", of, func(_ *child.Process, line string) { runs <- run{i, line} })
		check(err)
		processes[i] = p
	}
	ran, leaders, killed, patience := map[string]bool{}, []int{}, false, time.After(mongotest.Patience)
	for n := 0; len(leaders) < 2 || n < 3; n++ { // n are the runs of the last leader
		var r run
		select {
		case r = <-runs:
		case <-patience:
		}
		if len(leaders) == 0 || leaders[len(leaders)-1] != r.by {
			leaders, n = append(leaders, r.by), 0
		}
		if _, err := strconv.Atoi(r.tick); err != nil || ran[r.tick] || len(leaders) > 1 && !killed || len(leaders) > 2 {
			t.Fatalf("process %d said %q; the leaders were %v, one was killed: %v; these ticks ran: %v", r.by, r.tick, leaders, killed, ran)
		}
		if ran[r.tick] = true; n == 2 && !killed {
			processes[r.by].Kill()
			killed = true
		}
	}
	for i, p := range processes {
		if err := p.End(); i != leaders[0] {
			check(err)
		}
	}
}
