package doclock_test

import (
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
)

// A kept lease of the shortest TTL lives through one reset of all connections
// at the worst moment, when its renewal is on its way: the driver then selects no
// server for half a second. In one case of some 200 it takes a whole second, by the
// order in which its goroutines see the reset; so the lease has three tries.
func TestTheShortestLeaseSurvivesAReset(t *testing.T) {
	survived := false
	for try := 0; try < 3 && !survived; try++ {
		mongotest.RunVirtual(t, "", func(t *testing.T) {
			r := newRig(t, realTime, doclock.TTL(doclock.MinTTL))
			time.Sleep(time.Second) // the driver looks at a server once in 500 ms at most, and it has just done so
			lease := r.acquire()
			kept := lease.KeepAlive(t.Context())
			reset := r.net.Arm(faultnet.Stall, "findAndModify")
			within(t, reset.Fired(), "a renewal")
			r.net.Reset()
			time.Sleep(time.Minute)
			survived = kept.Err() == nil && lease.Err() == nil
		})
	}
	if !survived {
		t.Error("it was lost in each of three resets")
	}
}
