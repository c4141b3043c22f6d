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
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/internal/ticks"
	"github.com/robfig/cron/v3"
)

const period = ticks.Period

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

// Three instances whose clocks differ by a second, for 400 ticks.
func TestEveryTickRunsOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		takes time.Duration
		every int64 // tick that runs
	}{
		"a short job":             {5 * time.Millisecond, 1},
		"a job outlasts its tick": {period + period/2, 2},
	} {
		mongotest.RunVirtual(t, name, func(t *testing.T) {
			coll := mongotest.Database(t).Collection("jobs")
			begun := make(chan int64, 1000) // the ticks by the clock of the instance
			running := make(chan bool, 1)
			for _, by := range []time.Duration{0, 400 * time.Millisecond, time.Second} {
				c := cron.New()
				once := cronlock.Once(ticks.Locks(t, coll), "job", period/2, cron.DiscardLogger)
				c.Schedule(late{everyTick, by}, once(cron.FuncJob(func() {
					begun <- time.Now().Add(-by).UnixMilli() / period.Milliseconds()
					select {
					case running <- true:
						time.Sleep(test.takes)
						<-running
					default:
						t.Error("two run at a time")
					}
				})))
				c.Start()
				defer func() { <-c.Stop().Done() }()
			}
			time.Sleep(400*period + period/3)
			n := int64(len(begun))
			if n < 400/test.every {
				t.Errorf("%d runs", n)
			}
			for last := <-begun; len(begun) > 0; {
				next := <-begun
				if next-last != test.every {
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
		l := ticks.Locks(t, coll)
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
