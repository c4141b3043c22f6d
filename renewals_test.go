package doclock_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// many takes the write locks of n more documents, from _id 100 on. before is
// called before each.
func (r *rig) many(n int, before func(i int)) []*doclock.Lease {
	r.Helper()
	docs := make([]any, n)
	for i := range docs {
		docs[i] = bson.M{"_id": 100 + i}
	}
	if _, err := r.other.InsertMany(r.Context(), docs); err != nil {
		r.Fatal(err)
	}
	leases := make([]*doclock.Lease, n)
	for i := range leases {
		before(i)
		leases[i] = r.take(100+i, "write")
	}
	r.sent.forget()
	return leases
}

func (r *rig) take(id int, tag string) *doclock.Lease {
	r.Helper()
	lease, err := r.locks.TryAcquire(r.Context(), bson.M{"_id": id}, tag)
	if err != nil {
		r.Fatal(err)
	}
	return lease
}

// due keeps leases alive, and then lets the time pass after which they are due.
func (r *rig) due(leases ...*doclock.Lease) (kept []context.Context) {
	for _, l := range leases {
		kept = append(kept, l.KeepAlive(r.Context()))
	}
	r.clock.pass(ttl / 3)
	return kept
}

func fresh(leases ...*doclock.Lease) func() bool {
	return func() bool {
		return !slices.ContainsFunc(leases, func(l *doclock.Lease) bool { return l.Remaining() <= ttl*2/3 })
	}
}

func (r *rig) wantSent(want ...string) {
	r.Helper()
	if sent := r.sent.all(); !slices.Equal(sent, want) {
		r.Errorf("sent %v, want %v", sent, want)
	}
}

func TestManyLeasesAreRenewedByFewCommands(t *testing.T) {
	const n = 250
	t.Run("taken at once", func(t *testing.T) {
		r := newRig(t)
		leases := r.many(n, func(int) {})
		r.due(leases...)
		until(t, "renewals", fresh(leases...))
		r.wantSent("update", "update", "update")
	})
	t.Run("taken one after the other", func(t *testing.T) {
		r := newRig(t)
		leases := r.many(n, func(int) { r.clock.pass(ttl / 3 / n) })
		const periods = 3
		for _, l := range leases {
			l.KeepAlive(t.Context())
		}
		for range 12 * periods {
			r.clock.pass(ttl / 3 / 12)
			until(t, "renewals", fresh(leases...))
		}
		// Each is due once in a period, and at most three batches are not full.
		if sent := r.sent.count(); sent > periods*(3+3) {
			t.Errorf("%d leases were kept by %d commands in %d periods: %v", n, sent, periods, r.sent.all())
		}
	})
}

func TestOneLeaseIsRenewedByItself(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	r.due(lease)
	until(t, "a renewal", fresh(lease))
	r.wantSent("findAndModify")
}

// A release waits for the batch, and is not lost by it.
func TestReleaseDuringABatch(t *testing.T) {
	r := newRig(t)
	leases := r.many(3, func(int) {})
	reply := r.net.Arm(faultnet.DelayReply, "update")
	kept := r.due(leases...)
	within(t, 10*time.Second, reply.Fired(), "the batch")
	released := make(chan error, 1)
	go func() { released <- leases[1].Release(context.Background()) }()
	until(t, "the release", func() bool { return len(leases[1].Guard()) == 1 }) // it matches nothing
	r.wantSent("update")
	if err := reply.Let(); err != nil {
		t.Fatal(err)
	}
	if err := <-released; err != nil {
		t.Errorf("Release = %v", err)
	}
	within(t, 10*time.Second, kept[1].Done(), "the released one")
	if cause := context.Cause(kept[1]); !errors.Is(cause, doclock.ErrReleased) {
		t.Errorf("cause %v", cause)
	}
	until(t, "the others", fresh(leases[0], leases[2]))
	r.wantSent("update", "findAndModify")
}

// A lease that is being renewed by hand keeps no others back.
func TestABatchPassesOverWhatIsBusy(t *testing.T) {
	r := newRig(t)
	leases := r.many(3, func(int) {})
	reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
	renewed := make(chan error, 1)
	go func() { renewed <- leases[1].Renew(context.Background()) }()
	within(t, 10*time.Second, reply.Fired(), "the renewal by hand")
	r.due(leases...)
	until(t, "the others", fresh(leases[0], leases[2]))
	r.wantSent("findAndModify", "update")
	if err := reply.Let(); err != nil {
		t.Fatal(err)
	}
	if err := <-renewed; err != nil {
		t.Error(err)
	}
}

// A batch that nobody answers holds up no other.
func TestASlowBatchHoldsUpNoOther(t *testing.T) {
	r := newRig(t)
	first := r.many(2, func(int) {})
	reply := r.net.Arm(faultnet.DelayReply, "update")
	r.due(first...)
	within(t, 10*time.Second, reply.Fired(), "the first batch")
	lease := r.take(1, "write")
	r.sent.forget()
	r.due(lease)
	until(t, "the other", fresh(lease))
	r.wantSent("findAndModify") // and the first is not given up yet
	if err := reply.Let(); err != nil {
		t.Fatal(err)
	}
}

func loops() int { return running("(*renewals).run(") }

// running counts the goroutines in a function.
func running(function string) int {
	stacks := make([]byte, 1<<24)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), function)
}

func TestOneLoopForAllThatAreKept(t *testing.T) {
	r := newRig(t)
	leases := r.many(20, func(int) {})
	until(t, "the end of earlier tests' loops", func() bool { return loops() == 0 })
	for range 2 { // it can be taken up again
		ctx, cancel := context.WithCancel(t.Context())
		var keepers sync.WaitGroup
		for _, l := range leases {
			keepers.Go(func() { l.KeepAlive(ctx) })
		}
		keepers.Wait()
		until(t, "one loop", func() bool { return loops() == 1 })
		cancel()
		until(t, "the end of the loop", func() bool { return loops() == 0 })
	}
}

// What a lease that is held and kept costs.
func TestTenThousandLeases(t *testing.T) {
	const n, mostBytes, mostGoroutines = 10_000, 2048, 10
	client, err := mongo.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(context.Background()) }()
	clock := newHandClock()
	cfg := engine.Config{TTL: engine.DefaultTTL, Tolerance: engine.DefaultTolerance, Field: engine.DefaultField}
	if err := clock.option()(&cfg); err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(client.Database("none").Collection("none"), relations.Exclusive(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	tag := relations.Exclusive().Tags()[0]
	leases := lease.NewHolds(e, &attempt.Group{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	goroutines, before := runtime.NumGoroutine(), heap()
	all := make([]*lease.Handle, n)
	for i := range all {
		_, id, err := bson.MarshalValue(bson.NewObjectID())
		if err != nil {
			t.Fatal(err)
		}
		entry := engine.Entry{Tag: tag, ID: uuid.New(), Fence: int64(i) + 1}
		img := &engine.Image{ID: bson.RawValue{Type: bson.TypeObjectID, Value: id}, Lock: engine.Lock{Entries: []engine.Entry{entry}}}
		all[i] = leases.New(e.Grant(img, tag, entry.ID), e.Clocks())
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
	runtime.KeepAlive(all)
}

func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
