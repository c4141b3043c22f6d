package main

import (
	"slices"
	"testing"
	"time"
)

func TestCount(t *testing.T) {
	ms := int64(time.Millisecond)
	c := claims{Commands: 12, FoundNone: 1, All: []claim{
		{Priority: 4, Wished: 0, Granted: 2 * ms, Finished: 3 * ms},
		{Priority: 2, Wished: 3 * ms, Granted: 4 * ms, Finished: 9 * ms},
		{Priority: 3, Wished: 0, Granted: 5 * ms, Finished: 6 * ms},
		{Priority: 2, Wished: 6 * ms, Granted: 10 * ms, Finished: 12 * ms},
	}}
	got := c.count(2, 5)
	if got.twice != 1 || got.left != 2 || got.foundNone != 1 {
		t.Errorf("%d twice, %d left, %d times none", got.twice, got.left, got.foundNone)
	}
	if got.commands != 8 || got.perOp() != 2 {
		t.Errorf("%d commands, %v per claim", got.commands, got.perOp())
	}
	if got.took != 12*time.Millisecond {
		t.Errorf("it took %v", got.took)
	}
	// Two workers have 20 ms until the last grant, and are idle for 2+1+5+4.
	if got.idle != 0.6 {
		t.Errorf("the idle share is %v", got.idle)
	}
	if want := []int{0, 1, 0, 0}; !slices.Equal(got.overtaken, want) {
		t.Errorf("overtaken: %v instead of %v", got.overtaken, want)
	}
}

func TestCountOfNothing(t *testing.T) {
	got := claims{}.count(2, 5)
	if got.left != 5 || got.took != 0 || got.idle != 0 || got.perSecond() != 0 || got.perOp() != 0 {
		t.Errorf("%+v", got)
	}
}

func TestOvertakenIsByTimeOfGrant(t *testing.T) {
	// Granted in the order 5, 1, 4, 3, 2.
	all := []claim{{1, 0, 2, 9}, {2, 0, 5, 9}, {3, 0, 4, 9}, {4, 0, 3, 9}, {5, 0, 1, 9}}
	if got, want := overtaken(all), []int{0, 3, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("%v instead of %v", got, want)
	}
}
