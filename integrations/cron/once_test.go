package cronlock_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	cronlock "github.com/doclock/doclock/integrations/cron"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/writelock"
	"github.com/robfig/cron/v3"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const period = 3 * time.Second // between two ticks

var everyTick = schedule("*/3 * * * * *")

func schedule(spec string) cron.Schedule {
	s, err := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(spec)
	check(err)
	return s
}

// late is the schedule of an instance whose clock is behind.
type late struct {
	cron.Schedule
	by time.Duration
}

func (s late) Next(t time.Time) time.Time { return s.Schedule.Next(t.Add(-s.by)).Add(s.by) }

// logger keeps what a wrapper logs.
type logger struct {
	sync.Mutex
	lines []string
}

func (l *logger) Info(msg string, values ...any) { l.Error(nil, msg, values...) }

func (l *logger) Error(err error, msg string, values ...any) {
	l.Lock()
	defer l.Unlock()
	l.lines = append(l.lines, fmt.Sprint(err, " ", msg, " ", values))
}

// locks makes a Locker that must come to rest before the test is over.
func locks(t *testing.T, coll *mongo.Collection) *writelock.Locker {
	l, err := writelock.New(coll, doclock.Upsert())
	check(err)
	t.Cleanup(func() {
		if err := l.Close(fixture.Bounded(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// Three instances whose clocks differ by a second, for 400 ticks. One of them dies before it has released a lock: the ticks
// until the end of its lease are skipped.
func TestEveryTickRunsOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		takes time.Duration
		every int64 // tick that runs
		run   int   // at least
		dies  bool
	}{
		"a short job":             {5 * time.Millisecond, 1, 400, false},
		"a job outlasts its tick": {period + period/2, 2, 200, false},
		"an instance dies":        {5 * time.Millisecond, 1, 397, true},
	} {
		mongotest.RunVirtual(t, name, func(t *testing.T) {
			server, db := mongotest.Memory(t), mongotest.Database(t).Name()
			begun := make(chan int64, 1000) // the ticks by the clock of the instance
			running := make(chan bool, 1)
			dead, end := int64(-1), make(chan bool)
			for _, by := range []time.Duration{0, 400 * time.Millisecond, time.Second} {
				own, err := server.Connect(options.Client())
				check(err)
				c := cron.New()
				once := cronlock.Once(locks(t, own.Database(db).Collection("jobs")), "job", period/2, cron.DiscardLogger)
				c.Schedule(late{everyTick, by}, once(cron.FuncJob(func() {
					tick := time.Now().Add(-by).UnixMilli() / period.Milliseconds()
					begun <- tick
					select {
					case running <- true:
						time.Sleep(test.takes)
						<-running
					default:
						t.Error("two run at a time")
					}
					if test.dies && dead < 0 && len(begun) == 200 {
						dead = tick
						check(server.Cut(own, errors.New("dead")))
						<-end
						check(server.Cut(own, nil))
					}
				})))
				c.Start()
				defer func() { <-c.Stop().Done() }()
			}
			time.Sleep(400*period + period/3)
			close(end)
			n := len(begun)
			if n < test.run || test.dies != (dead >= 0) {
				t.Errorf("%d runs, after tick %d an instance died", n, dead)
			}
			for last := <-begun; len(begun) > 0; {
				next := <-begun
				if gap := next - last; gap != test.every && (last != dead || gap < 1 || gap > 4) {
					t.Errorf("after tick %d tick %d ran", last, next)
				}
				last = next
			}
			t.Logf("%d ticks, %d runs", 400, n)
		})
	}
}

// What is not asked, and what is lost, is an error in the log; the tick of another run is none.
func TestLog(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		var log logger
		coll := mongotest.Database(t).Collection("jobs")
		l := locks(t, coll)
		once := cronlock.Once(l, "job", time.Minute, &log)
		runs := 0
		run := once(cron.FuncJob(func() { runs++ })).Run
		says := func(what string, n int, words ...string) {
			t.Helper()
			text := strings.Join(log.lines, "\n")
			for _, word := range words {
				if !strings.Contains(text, word) {
					t.Errorf("%s: the log is %q", what, text)
				}
			}
			if runs != n || len(words) == 0 && text != "" {
				t.Errorf("%s: %d runs, the log is %q", what, runs, text)
			}
			log.lines = nil
		}
		run()
		says("the first", 1)
		run()
		says("another in the same tick", 1, "<nil> skip", "job", "conflict")
		time.Sleep(2 * time.Minute)
		once(cron.FuncJob(func() {
			runs++
			if err := coll.Drop(t.Context()); err != nil {
				t.Error(err)
			}
		})).Run()
		says("a lost lock", 2, doclock.ErrLost.Error(), "the lock of a job")
		mongotest.Memory(t).Down(errors.New("no cable"))
		begun := time.Now()
		run()
		if waited := time.Since(begun); waited > 10*time.Second {
			t.Errorf("it waited for %v", waited)
		}
		says("no server", 2, "the lock of a job")
		mongotest.Memory(t).Up()
	})
}
