package lease

import (
	"context"
	"encoding/binary"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// What a grant allocates beside its command, and what comes after it.
func TestAllocations(t *testing.T) {
	e, coll := connected(t)
	r := newRig(t, e, coll)
	exclusive := r.grant(1, "write")
	for name, c := range map[string]struct {
		most float64
		do   func()
	}{
		"a grant": {5, func() {
			r.New(exclusive, r.engine.Clocks()).giveUp()
		}},
		"a grant and a release": {10, func() { // 8 if the compiler optimizes
			h := r.New(exclusive, r.engine.Clocks())
			v, _ := h.claim()
			_ = h.giveWay(context.Background(), v)
			to := h.handoff()
			h.giveUp()
			h.conclude(context.Background(), v, nil)
			to.close(nil)
			_ = h.Release(context.Background())
		}},
		"a lease that is kept alive": {24, func() { // 18 or 19, by when its goroutines end
			h := r.New(exclusive, r.engine.Clocks())
			ctx, cancel := context.WithCancel(context.Background())
			h.KeepAlive(ctx)
			h.giveUp()
			cancel()
		}},
	} {
		n := math.Inf(1) // the least: goroutines of this process that are ending allocate too
		for range 5 {
			n = min(n, testing.AllocsPerRun(1000, c.do))
		}
		t.Logf("%s: %v", name, n)
		if n > c.most {
			t.Errorf("%s allocates %v times, want at most %v", name, n, c.most)
		}
	}
}

// What a lease that is held and kept costs.
func TestTenThousandLeases(t *testing.T) {
	const n, mostBytes, mostGoroutines = 10_000, 2400, 10
	now := engine.Reading{Mono: time.Hour, Wall: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	e, coll := connected(t, func(cfg *engine.Config) { cfg.Clock = func() engine.Reading { return now } })
	r := newRig(t, e, coll)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	goroutines, before := runtime.NumGoroutine(), heap()
	all := make([]*Lease, n)
	for i := range all {
		entry := engine.Entry{Tag: "write", ID: uuid.New(), Fence: int64(i) + 1}
		id := bson.RawValue{Type: bson.TypeInt64, Value: binary.LittleEndian.AppendUint64(nil, uint64(i))}
		img := &engine.Image{ID: id, Lock: engine.Lock{Entries: []engine.Entry{entry}}}
		all[i] = r.New(e.Grant(img, engine.Request{Tag: "write", ID: entry.ID}), e.Clocks())
		all[i].KeepAlive(ctx)
	}
	each := (heap() - before) / n
	t.Logf("%d bytes for each of %d leases; %d goroutines for all", each, n, runtime.NumGoroutine()-goroutines)
	if each > mostBytes {
		t.Errorf("a kept lease takes %d bytes, want at most %d", each, mostBytes)
	}
	if more := runtime.NumGoroutine() - goroutines; more > mostGoroutines {
		t.Errorf("%d leases are kept by %d goroutines", n, more)
	}
	for _, h := range all {
		h.giveUp()
	}
}

func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
