package waitqueue

import (
	"testing"
	"time"
)

// Local runs grow as long as nobody else is seen, and are short as soon as
// somebody is.
func TestLocalRunsGrowWhileNobodyComes(t *testing.T) {
	t.Parallel()
	h := newHand()
	r := &localRun{clock: h.now, most: firstRun}
	rivals := time.Duration(0)
	grants := func(want ...time.Duration) {
		t.Helper()
		for i, w := range want {
			if r.begin(rivals); r.most != w {
				t.Errorf("run %d may last %v, want %v", i, r.most, w)
			}
		}
	}
	grants(2*firstRun, 4*firstRun, 8*firstRun, loneRun, loneRun)
	rivals = r.asked + 1
	h.pass(1)
	grants(rivalRun, 2*rivalRun, 4*rivalRun)
}

// A run ends after its time, or after many handoffs.
func TestALocalRunIsBounded(t *testing.T) {
	t.Parallel()
	h := newHand()
	r := &localRun{clock: h.now, most: firstRun}
	count := func(each time.Duration) (n int) {
		for n <= longestRun && r.goesOn() {
			r.handed++
			n++
			h.pass(each)
		}
		return n
	}
	if n := count(time.Millisecond); n != int(firstRun/time.Millisecond)+1 {
		t.Errorf("%d handoffs of a millisecond each", n)
	}
	if n := count(time.Nanosecond); n != longestRun {
		t.Errorf("%d handoffs that take no time", n)
	}
	if !r.spent {
		t.Error("no yield window follows")
	}
}

// In the yield window after a run a poller of a hot lock asks once, and where
// somebody was seen the window outlasts that one's run.
func TestTheYieldWindowAfterALocalRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		most     time.Duration
		from, to time.Duration
	}{
		{firstRun, loneWindow, loneWindow},
		{rivalRun, rivalWindow, rivalWindow + windowJitter},
	} {
		h := newHand()
		r := &localRun{clock: h.now, most: c.most, spent: true}
		r.yield()
		if window := r.yields(); window < c.from || window > c.to {
			t.Errorf("after %v: a window of %v, want %v to %v", c.most, window, c.from, c.to)
		}
		h.pass(time.Second)
		if r.yield(); r.yields() != 0 {
			t.Error("a window without a run before it")
		}
	}
	if loneWindow <= hotPause || rivalWindow < rivalRun {
		t.Error("nobody else has the time to ask")
	}
}
