package storm

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/proptest/tally"
)

// goroutines is how many drive a run.
const goroutines = 8

// Config is the size of a storm.
type Config struct {
	First uint64        // the first seed
	Seeds int           // how many
	Long  time.Duration // of each run, in virtual time
}

// Run runs the seeds, and counts the checks and what was seen.
func Run(t *testing.T, c Config, counts *tally.Tally) {
	for seed := c.First; seed < c.First+uint64(c.Seeds); seed++ {
		panics := &panics{}
		was := log.Writer()
		log.SetOutput(panics)
		synctest.Test(t, func(t *testing.T) {
			s, err := newStorm(seed)
			if err != nil {
				t.Fatal(err)
			}
			s.panics = panics
			s.run(c.Long)
			s.judge(counts)
		})
		log.SetOutput(was)
		if t.Failed() {
			return
		}
	}
}

// runner is one goroutine that drives.
type runner struct {
	*storm
	*rand.Rand
}

// runner makes one with a fate of its own.
func (s *storm) runner(number int) runner {
	return runner{s, rand.New(rand.NewPCG(s.seed, uint64(number)))}
}

// run drives for a virtual time, and then lets all come to its end.
func (s *storm) run(long time.Duration) {
	over, stop := context.WithTimeout(context.Background(), long)
	defer stop()
	var callers, others sync.WaitGroup
	for i := range goroutines {
		r := s.runner(i)
		callers.Go(func() {
			for over.Err() == nil {
				r.turn()
				time.Sleep(r.upTo(400 * time.Millisecond))
			}
		})
	}
	others.Go(func() { s.runner(goroutines).garden(over) })
	if !s.calm {
		others.Go(func() { s.runner(goroutines + 1).faults(over) })
	}
	if s.closes {
		others.Go(func() {
			time.Sleep(long / 2)
			s.close(s.programs[1])
		})
	}
	others.Wait()
	s.peace()
	callers.Wait()
	for _, p := range s.programs {
		s.close(p)
	}
	s.peace() // a fault that was meant for one call may be left
	s.leftover = s.entries()
	time.Sleep(2 * longestTTL) // the leases that were left alone end, and the events are delivered
	synctest.Wait()
}

// upTo is a random duration.
func (r runner) upTo(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most))) }

// one reports true once in n times.
func (r runner) one(n int) bool { return r.IntN(n) == 0 }

// close closes a Locker, and waits for what it runs.
func (s *storm) close(p *program) {
	s.mu.Lock()
	if p.closed.IsZero() {
		p.closed = time.Now()
	}
	s.mu.Unlock()
	if err := p.locker.Close(context.Background()); err != nil {
		s.fault("Close returned %v", err)
	}
}

// fault is a violation that is found at once.
func (s *storm) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = append(s.found, fmt.Sprintf(format, args...))
}
