package cases

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
	got, twice, left := c.count(5)
	if twice != 1 || left != 2 || got.Commands != 8 || got.Took != 12*time.Millisecond || got.Extra[0].Value != 1 {
		t.Errorf("%d twice, %d left, %d commands in %v, %v", twice, left, got.Commands, got.Took, got.Extra)
	}
	// Granted in the order 5, 1, 4, 3, 2.
	c = claims{All: []claim{{1, 0, 2, 9}, {2, 0, 5, 9}, {3, 0, 4, 9}, {4, 0, 3, 9}, {5, 0, 1, 9}}}
	if places := c.places(); !slices.Equal(places, []int{3, 0, 0, 0, 0}) {
		t.Errorf("%v places off", places)
	}
}
