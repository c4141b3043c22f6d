package lease

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// What the bookkeeping of a grant and of its release allocates, whatever the
// command does.
func TestAllocations(t *testing.T) {
	r := newRig(t, unconnected(t))
	r.commands = answersAtOnce{r.server}
	exclusive, shared := r.grant(1, "write"), r.grant(2, "read")
	standing := r.New(shared, r.engine.Clocks(), true)
	defer standing.hold.finish(ErrReleased)
	for name, c := range map[string]struct {
		most float64
		do   func()
	}{
		"New": {3, func() {
			r.New(exclusive, r.engine.Clocks(), false).hold.finish(ErrReleased)
		}},
		"New, shared": {3, func() {
			h := r.New(exclusive, r.engine.Clocks(), true)
			h.hold.finish(ErrReleased)
		}},
		"Join": {100, func() {
			h := r.Join(shared.ID)
			h.hold.depart(h)
		}},
		"Join, Release": {100, func() {
			_ = r.Join(shared.ID).Release(context.Background())
		}},
		"New, Release": {100, func() {
			_ = r.New(exclusive, r.engine.Clocks(), false).Release(context.Background())
		}},
		"KeepAlive": {100, func() {
			h := r.New(exclusive, r.engine.Clocks(), false)
			ctx, cancel := context.WithCancel(context.Background())
			h.KeepAlive(ctx)
			h.hold.finish(ErrReleased)
			cancel()
		}},
	} {
		n := testing.AllocsPerRun(1000, c.do)
		t.Logf("%s: %v", name, n)
		if n > c.most {
			t.Errorf("%s allocates %v times, want at most %v", name, n, c.most)
		}
	}
	_ = bson.D{}
}
