package writelock_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/writelock"
)

// start is the moment when a machine begins a tick's job, by the server's clock.
type start struct {
	machine *writelock.Locker
	tick    int
	at      time.Time
}

// TestCronRunsOncePerTick has eight machines start a job at each of sixty ticks.
// Their clocks differ by up to five seconds, so they start one after the other,
// each after the job of the others is done. The server's clock is set by hand.
func TestCronRunsOncePerTick(t *testing.T) {
	t.Parallel()
	const machines, ticks, period, apart, work = 8, 20, time.Minute, 5 * time.Second, 20 * time.Millisecond
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, test := range map[string]struct {
		opts []doclock.AcquireOption
		once bool
	}{
		"with HoldAtLeast": {[]doclock.AcquireOption{doclock.HoldAtLeast(period / 2)}, true},
		"without":          {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, draw := newPlace(t), rand.New(rand.NewPCG(seed, 0))
			var server fixture.Clock
			var starts []start
			for range machines {
				machine := p.locker(p.Hand, drivenBy(&server))
				behind := time.Duration(draw.Int64N(int64(apart)))
				for tick := range ticks {
					starts = append(starts, start{machine, tick, fixture.Epoch.Add(time.Duration(tick)*period + behind)})
				}
			}
			slices.SortFunc(starts, func(a, b start) int { return a.at.Compare(b.at) })

			runs := make([]int, ticks)
			for _, s := range starts {
				server.Set(s.at)
				lease, err := s.machine.TryAcquire(t.Context(), order, test.opts...)
				if errors.Is(err, doclock.ErrConflict) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				runs[s.tick]++
				if draw.IntN(10) == 0 { // it crashes: its lease ends before the next tick
					continue
				}
				server.Pass(work)
				p.release(lease)
			}
			more := 0
			for tick, n := range runs {
				if n == 0 || test.once && n != 1 {
					t.Errorf("tick %d ran %d times", tick, n)
				}
				more += n - 1
			}
			if !test.once && more == 0 {
				t.Error("every tick ran once even without HoldAtLeast: the test proves nothing")
			}
			t.Logf("%d ticks ran %d times", ticks, ticks+more)
		})
	}
}
