package cases

import (
	"slices"
	"testing"
	"time"
)

func TestCount(t *testing.T) {
	ms := int64(time.Millisecond)
	c := claims{Commands: 12, FoundNone: 1, All: []claim{
		{Priority: 4, Wished: 0, Granted: 2 * ms, Finished: 3 * ms, Order: 2},
		{Priority: 2, Wished: 3 * ms, Granted: 4 * ms, Finished: 9 * ms, Order: 4},
		{Priority: 3, Wished: 0, Granted: 5 * ms, Finished: 6 * ms, Order: 5},
		{Priority: 2, Wished: 6 * ms, Granted: 10 * ms, Finished: 12 * ms, Order: 10},
	}}
	got := c.count(2, 5)
	if got.twice != 1 || got.left != 2 || got.foundNone != 1 {
		t.Errorf("%d twice, %d left, %d times none", got.twice, got.left, got.foundNone)
	}
	if got.Commands != 8 || got.PerOp() != 2 {
		t.Errorf("%d commands, %v per claim", got.Commands, got.PerOp())
	}
	if got.Took != 12*time.Millisecond {
		t.Errorf("it took %v", got.Took)
	}
	// Two workers have 20 ms until the last grant, and are idle for 2+1+5+4.
	if got.idle != 0.6 {
		t.Errorf("the idle share is %v", got.idle)
	}
	if want := []int{0, 1, 0, 0}; !slices.Equal(got.places, want) {
		t.Errorf("places off: %v instead of %v", got.places, want)
	}
	if want := []int{0, 0, 1, 0}; !slices.Equal(got.overtaken, want) {
		t.Errorf("overtaken: %v instead of %v", got.overtaken, want)
	}
}

func TestTheOrderIsThatOfTheGrants(t *testing.T) {
	// Granted in the order 5, 1, 4, 3, 2.
	all := []claim{{1, 0, 2, 9, 2}, {2, 0, 5, 9, 5}, {3, 0, 4, 9, 4}, {4, 0, 3, 9, 3}, {5, 0, 1, 9, 1}}
	for _, c := range []struct {
		own, beside       []claim
		places, overtaken []int
	}{
		{all, nil, []int{3, 0, 0, 0, 0}, []int{0, 1, 1, 1, 0}},
		{all[:2], all[2:], []int{3, 0}, []int{0, 1}},
	} {
		places, overtaken := claims{All: c.own, Beside: c.beside}.order()
		if !slices.Equal(places, c.places) || !slices.Equal(overtaken, c.overtaken) {
			t.Errorf("%v places off, %v overtaken", places, overtaken)
		}
	}
}
