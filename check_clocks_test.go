package doclock

import (
	"testing"
	"time"
)

func TestClockOffsets(t *testing.T) {
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	var c clockOffsets
	if c.skew() != 0 {
		t.Errorf("nobody's clocks differ by %v", c.skew())
	}
	// Slow answers tell little: four seconds' round trip may hide two.
	c.add("a", at(0), at(0), at(time.Second))
	c.add("a", at(5*time.Second+10*time.Millisecond), at(5*time.Second), at(5*time.Second+20*time.Millisecond))
	c.add("a", at(11500*time.Millisecond), at(8*time.Second), at(12*time.Second))
	if got := c.skew(); got != 0 {
		t.Errorf("one server's clock differs by %v", got)
	}
	c.add("b", at(2*time.Second), at(time.Second), at(time.Second+10*time.Millisecond))
	c.add("c", at(time.Second), at(2*time.Second), at(2*time.Second+10*time.Millisecond))
	if got := c.skew(); got != 2*time.Second {
		t.Errorf("the clocks differ by %v, not by 2s", got)
	}
}
