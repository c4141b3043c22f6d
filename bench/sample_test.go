package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

// A rival that did nothing is infinitely slow, and doesn't make ours look slow.
func TestRatio(t *testing.T) {
	did := func(ops int) round { return round{latencies: make([]time.Duration, ops), took: time.Second} }
	ours := &result{rounds: []round{did(10), did(10), did(10)}}
	rival := &result{rounds: []round{did(0), did(5), did(0)}}
	got := ratio(ours, rival, round.perSecond)
	if !math.IsInf(got.mid, 1) || got.lo != 2 || !math.IsInf(got.hi, 1) {
		t.Errorf("the ratio is %v", got)
	}
	if text := number(got.mid); text != "+Inf" {
		t.Errorf("it is printed as %q", text)
	}
}

func TestShuffledLeavesTheOrderOfTheTables(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for range 20 {
		turns := shuffled(names)
		if !slices.Equal(names, []string{"a", "b", "c", "d"}) {
			t.Fatalf("the tables' order is %v", names)
		}
		if slices.Sort(turns); !slices.Equal(turns, names) {
			t.Fatalf("the turns are %v, of %v", turns, names)
		}
	}
}
