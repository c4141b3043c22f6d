package claims

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// workload is that of workers in several processes, which claim documents until none is free.
type workload struct {
	processes []int // workers of each
	documents int
	work      time.Duration // of a document, at most, beside the final write
	keeps     bool          // they keep what they have claimed, and it still matches
	inTurn    bool          // one process after the other, never at once
}

// counts are what the claims of one process, or of all, come to.
type counts struct {
	commands float64 // of a claim
	off      []int   // for each claim: better documents that were free at the grant
}

func (c *counts) add(got claimed) {
	c.commands, c.off = c.commands+float64(got.commands), append(c.off, got.off)
}

// simulate runs a workload in virtual time. overtaken is, for each document, how many
// worse ones were claimed while it was free.
func (l workload) simulate(t *testing.T, seed uint64) (all, first counts, overtaken []int) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(seed, l.documents)
		var mu sync.Mutex // of the counts
		turns := make(chan struct{}, 1)
		var group sync.WaitGroup
		for i, workers := range l.processes {
			process := New(Config{Now: s.now, Rand: s.rand})
			for range workers {
				group.Go(func() {
					time.Sleep(s.below(5 * time.Millisecond))
					for {
						if l.inTurn {
							turns <- struct{}{}
						}
						begun := s.now()
						got, err := s.claim(t.Context(), process, Request{Once: true, Asks: true})
						if l.inTurn {
							<-turns
							time.Sleep(2 * time.Millisecond)
						}
						if n := s.idle(begun); err != nil && n > 0 || err != nil && !errors.Is(err, errNone) {
							t.Errorf("%v, and %d documents were free all the time", err, n)
						}
						if err != nil {
							return
						}
						mu.Lock()
						if all.add(got); i == 0 {
							first.add(got)
						}
						mu.Unlock()
						if !l.keeps {
							time.Sleep(s.below(l.work+1) + s.way())
							s.release(got.document, true)
							time.Sleep(s.way())
						}
					}
				})
			}
		}
		group.Wait()
		all.commands /= float64(len(all.off))
		first.commands /= float64(len(first.off))
		for _, d := range s.docs {
			overtaken = append(overtaken, d.overtaken)
		}
	})
	return all, first, overtaken
}

// Workers get nearly the best document that is free, for little more than a command each, however many processes
// they are in. The order of goroutines at one instant is the scheduler's: the worst places differ from run to run
// (of 8 processes of 4: 111 in the median of 140 runs, 179 at most), and the bounds are far from them.
func TestOrderOfClaims(t *testing.T) {
	const ms = time.Millisecond
	each := func(processes, workers int) []int { return slices.Repeat([]int{workers}, processes) }
	for name, c := range map[string]struct {
		workload
		commands                float64 // of a claim, at most
		median, most, overtaken int     // places off; and worse documents that came first: at most
	}{
		"one worker":                           {workload{processes: each(1, 1), documents: 300}, 1, 0, 0, 0},
		"8 workers":                            {workload{processes: each(1, 8), documents: 500}, 1.15, 2, 16, 24},
		"32 workers":                           {workload{processes: each(1, 32), documents: 1000}, 1.15, 4, 40, 48},
		"8 workers, work":                      {workload{processes: each(1, 8), documents: 500, work: 20 * ms}, 1.35, 2, 16, 24},
		"2 processes in turn":                  {workload{processes: each(2, 1), documents: 300, inTurn: true}, 2.2, 0, 2, 2},
		"2 processes in turn, keeping":         {workload{processes: each(2, 1), documents: 300, inTurn: true, keeps: true}, 2.2, 0, 2, 2},
		"2 processes of 1":                     {workload{processes: each(2, 1), documents: 500}, 2.5, 2, 16, 16},
		"2 processes of 1, keeping":            {workload{processes: each(2, 1), documents: 300, keeps: true}, 2.6, 2, 16, 16},
		"4 processes of 2":                     {workload{processes: each(4, 2), documents: 1000}, 2.5, 8, 32, 48},
		"8 processes of 1":                     {workload{processes: each(8, 1), documents: 1000}, 2.7, 8, 32, 48},
		"2 processes of 16":                    {workload{processes: each(2, 16), documents: 1000}, 1.5, 32, 128, 512},
		"4 processes of 8":                     {workload{processes: each(4, 8), documents: 1000}, 1.6, 32, 256, 512},
		"4 processes of 8, keeping":            {workload{processes: each(4, 8), documents: 1000, keeps: true}, 1.6, 32, 256, 512},
		"4 processes of 8, work":               {workload{processes: each(4, 8), documents: 1000, work: 20 * ms}, 1.9, 32, 128, 512},
		"8 processes of 4":                     {workload{processes: each(8, 4), documents: 2000}, 1.8, 32, 256, 512},
		"32 processes of 1":                    {workload{processes: each(32, 1), documents: 2000}, 3.5, 32, 128, 512},
		"32 processes of 1, work":              {workload{processes: each(32, 1), documents: 2000, work: 20 * ms}, 3.1, 32, 128, 512},
		"16 processes of 8":                    {workload{processes: each(16, 8), documents: 2000}, 2, 128, 1024, 2048},
		"a lone worker beside 24":              {workload{processes: []int{1, 8, 8, 8}, documents: 1000}, 1.6, 32, 128, 512},
		"a lone worker beside 24, long work":   {workload{processes: []int{1, 8, 8, 8}, documents: 1000, work: 100 * ms}, 2.3, 32, 128, 512},
		"a lone worker beside 3 others, work":  {workload{processes: each(4, 1), documents: 500, work: 20 * ms}, 2.4, 3, 16, 16},
		"a lone worker beside 31 of a process": {workload{processes: []int{1, 31}, documents: 1000}, 1.4, 32, 128, 512},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, first, overtaken := c.simulate(t, 1)
			median, most, worst := percentile(all.off, 50), percentile(all.off, 100), percentile(overtaken, 100)
			t.Logf("%.2f commands, %d places off, %d at worst, %d overtaken; of the first process: %.2f, %d, %d",
				all.commands, median, most, worst, first.commands, percentile(first.off, 50), percentile(first.off, 100))
			if all.commands > c.commands || median > c.median || most > c.most || worst > c.overtaken {
				t.Errorf("want at most %.2f, %d, %d, %d", c.commands, c.median, c.most, c.overtaken)
			}
		})
	}
}
