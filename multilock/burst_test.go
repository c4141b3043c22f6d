package multilock

import (
	"testing"
	"time"
)

// Bursts grow as long as nobody else is seen, and are short as soon as
// somebody is.
func TestBurstsGrowWhileNobodyComes(t *testing.T) {
	t.Parallel()
	l := &line{burst: firstBurst}
	grants := func(want ...time.Duration) {
		t.Helper()
		for i, w := range want {
			if l.begin(); l.burst != w {
				t.Errorf("burst %d may last %v, want %v", i, l.burst, w)
			}
		}
	}
	grants(2*firstBurst, 4*firstBurst, 8*firstBurst, loneBurst, loneBurst)
	l.picture.rivals = l.got.Add(1)
	grants(sharedBurst, 2*sharedBurst, 4*sharedBurst)
}

// In the gap after a burst whoever polls a hot lock asks once, and where
// somebody was seen it outlasts his burst.
func TestTheGapAfterABurst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		burst    time.Duration
		from, to time.Duration
	}{
		{firstBurst, loneGap, loneGap},
		{sharedBurst, sharedGap, sharedGap + gapJitter},
	} {
		l := &line{burst: c.burst, spent: true}
		before := time.Now()
		l.rest()
		if gap := l.gap.Sub(before); gap < c.from || gap > c.to+time.Since(before) {
			t.Errorf("after %v: a gap of %v, want %v to %v", c.burst, gap, c.from, c.to)
		}
		l.gap = time.Time{}
		if l.rest(); !l.gap.IsZero() {
			t.Error("a gap without a burst before it")
		}
	}
	if loneGap <= hotPause || sharedGap < sharedBurst {
		t.Error("nobody else has the time to ask")
	}
}
