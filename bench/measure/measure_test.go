package measure

import (
	"math"
	"testing"
	"time"
)

// A rival that did nothing is infinitely slow, and doesn't make ours look slow.
func TestRatio(t *testing.T) {
	did := func(ops int) Round { return Round{Latencies: make([]time.Duration, ops), Took: time.Second} }
	ours := &Result{Rounds: []Round{did(10), did(10), did(10)}}
	rival := &Result{Rounds: []Round{did(0), did(5), did(0)}}
	got := Ratio(ours, rival, Round.PerSecond)
	if !math.IsInf(Rounded(got.Mid), 1) || got.Lo != 2 || !math.IsInf(got.Hi, 1) {
		t.Errorf("the ratio is %v", got)
	}
}
