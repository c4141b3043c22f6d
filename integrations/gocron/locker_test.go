package gocronlock_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	gocronlock "github.com/doclock/doclock/integrations/gocron"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/go-co-op/gocron/v2"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// runs counts the runs of each tick, which an instance names by its own clock.
type runs struct {
	sync.Mutex
	of      map[int64]int
	running int
	most    int // at a time
}

func (r *runs) job(c late, takes time.Duration) func() {
	return func() {
		r.Lock()
		r.of[c.Now().UnixMilli()/period.Milliseconds()]++
		r.running++
		r.most = max(r.most, r.running)
		r.Unlock()
		<-time.After(takes)
		r.Lock()
		r.running--
		r.Unlock()
	}
}

func (r *runs) count() int {
	r.Lock()
	defer r.Unlock()
	return len(r.of)
}

// gaps fails if a tick ran twice, or more than some ticks in a row did not run.
func (r *runs) gaps(t *testing.T, skipped int64) {
	t.Helper()
	r.Lock()
	defer r.Unlock()
	ticks := slices.Sorted(maps.Keys(r.of))
	for i, tick := range ticks {
		if n := r.of[tick]; n != 1 {
			t.Errorf("tick %d ran %d times", tick, n)
		}
		if i > 0 && tick-ticks[i-1] > skipped+1 {
			t.Errorf("after tick %d the next that ran is %d", ticks[i-1], tick)
		}
	}
	if r.most != 1 {
		t.Errorf("%d ran at a time", r.most)
	}
	t.Logf("%d of %d ticks ran", len(ticks), ticks[len(ticks)-1]-ticks[0]+1)
}

// Three instances whose clocks differ by a second, for 400 ticks. One of them dies before it has released a lock: the ticks
// until the end of its lease are skipped.
func TestEveryTickRunsOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		takes   time.Duration
		skipped int64 // in a row, at most
		run     int   // at least
		dies    bool
	}{
		"a short job":             {5 * time.Millisecond, 0, 400, false},
		"a job outlasts its tick": {period + period/2, 1, 200, false},
		"an instance dies":        {5 * time.Millisecond, 3, 397, true},
	} {
		mongotest.RunVirtual(t, name, func(t *testing.T) {
			server, db := mongotest.Memory(t), mongotest.Database(t).Name()
			r := runs{of: map[int64]int{}}
			dead, end := false, make(chan bool)
			for _, by := range behind {
				own, err := server.Connect(options.Client())
				must(t, err)
				c := clock(by)
				job := r.job(c, test.takes)
				locker := gocronlock.NewLocker(locks(t, own.Database(db).Collection("jobs")), period/2)
				defer start(t, everyTick(), func() {
					job()
					if test.dies && !dead && r.count() == 200 {
						dead = true
						must(t, server.Cut(own, errors.New("dead")))
						<-end
						must(t, server.Cut(own, nil))
					}
				}, gocron.WithClock(c), gocron.WithDistributedLocker(locker))()
			}
			time.Sleep(400*period + period/3)
			close(end)
			if n := r.count(); n < test.run || dead != test.dies {
				t.Errorf("%d ticks ran", n)
			}
			r.gaps(t, test.skipped)
		})
	}
}

// The ticks of DurationJob begin with each instance's start. The runs are as far apart as the Locker says, and no farther
// than the job says.
func TestTicksThatDiffer(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		const least = period * 3 / 4
		coll := mongotest.Database(t).Collection("jobs")
		begun := make(chan time.Time, 1000)
		for range 3 {
			locker := gocronlock.NewLocker(locks(t, coll), least)
			defer start(t, gocron.DurationJob(period), func() { begun <- time.Now() }, gocron.WithDistributedLocker(locker))()
			time.Sleep(1100 * time.Millisecond)
		}
		time.Sleep(100 * period)
		for last := <-begun; len(begun) > 0; {
			next := <-begun
			if apart := next.Sub(last); apart < least || apart > period+10*time.Millisecond {
				t.Errorf("%v between two runs", apart)
			}
			last = next
		}
	})
}

// Lock answers at once, also while another instance runs the job. Unlock leaves the rest of the time.
func TestLock(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		coll := mongotest.Database(t).Collection("jobs")
		one, two := gocronlock.NewLocker(locks(t, coll), time.Minute), gocronlock.NewLocker(locks(t, coll), time.Minute)
		refused := func(when string) {
			t.Helper()
			begun := time.Now()
			if _, err := two.Lock(t.Context(), "job"); !errors.Is(err, doclock.ErrConflict) || time.Since(begun) > time.Second {
				t.Errorf("%s: Lock returned %v after %v", when, err, time.Since(begun))
			}
		}
		granted := func() {
			t.Helper()
			lock, err := two.Lock(t.Context(), "job")
			must(t, err)
			must(t, lock.Unlock(t.Context()))
		}
		ctx, shutdown := context.WithCancel(t.Context())
		lock, err := one.Lock(ctx, "job")
		must(t, err)
		refused("the job runs")
		shutdown() // gocron's, while the job goes on
		time.Sleep(10 * time.Minute)
		refused("the job runs for long")
		must(t, lock.Unlock(ctx))
		granted()
		time.Sleep(59 * time.Second)
		refused("the job is over")
		time.Sleep(2 * time.Second)
		granted()
		other, err := one.Lock(t.Context(), "other")
		must(t, err)
		must(t, other.Unlock(t.Context()))
	})
}
