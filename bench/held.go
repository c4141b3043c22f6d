package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// runHeld has one process hold many leases at the default TTL, kept alive, and
// counts memory, goroutines and renewals.
func runHeld(ctx context.Context, b *bench) error {
	n, length := pick(b, 10_000, 2000), pick(b, 12*time.Second, 8*time.Second)
	m := &base{}
	if err := m.open(&b.servers, ttl); err != nil {
		return err
	}
	defer m.close()
	docs := m.client.Database(b.servers.Database).Collection("held")
	locks, err := writelock.New(docs)
	if err != nil {
		return err
	}
	defer closeLocker(locks)
	for chunk := range slices.Chunk(make([]any, n), 1000) {
		for i := range chunk {
			chunk[i] = bson.M{"text": "held"}
		}
		if _, err := docs.InsertMany(ctx, chunk); err != nil {
			return err
		}
	}
	var ids []struct {
		ID bson.ObjectID `bson:"_id"`
	}
	cursor, err := docs.Find(ctx, bson.M{})
	if err != nil {
		return err
	}
	if err := cursor.All(ctx, &ids); err != nil {
		return err
	}
	leases := make([]*doclock.Lease, n)
	kept := make([]context.Context, n)
	acquire := func(keep bool) func(i int) error {
		return func(i int) (err error) {
			if leases[i], err = locks.Acquire(ctx, bson.M{"_id": ids[i].ID}); err == nil && keep {
				kept[i] = leases[i].KeepAlive(ctx)
			}
			return err
		}
	}
	release := func(i int) error { _ = leases[i].Release(context.WithoutCancel(ctx)); return nil }

	// The memory of the driver and the runtime for as many commands at a time,
	// without leases.
	if err := each(ctx, 200, acquire(false)); err != nil {
		return err
	}
	if err := each(ctx, 200, release); err != nil {
		return err
	}
	clear(leases)
	heap, goroutines := usage()
	begun := time.Now()
	if err := each(ctx, n, acquire(true)); err != nil {
		return err
	}
	b.say("  %d leases after %.1fs; counting renewals for %v", n, time.Since(begun).Seconds(), length)
	fullHeap, fullGoroutines := usage()
	before, counted := m.counter.byName(), time.Now()
	select {
	case <-time.After(length):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, took := m.counter.byName(), time.Since(counted)
	lost := 0
	for i := range leases {
		if leases[i].Err() != nil {
			lost++
		}
	}
	sent := int64(0)
	r := b.newResult("held", "doclock")
	r.add("leases", n)
	r.add("bytes_per_lease", max(0, (int(fullHeap)-int(heap))/n))
	r.add("goroutines_added", fullGoroutines-goroutines)
	r.add("window_s", rounded(took.Seconds()))
	for name, k := range after {
		if k -= before[name]; k > 0 {
			sent += k
			r.add(name, k)
		}
	}
	single := float64(n) * took.Seconds() / (ttl.Seconds() / 3)
	r.add("renewal_commands", sent)
	r.add("single_renewals_would_send", rounded(single))
	r.add("share_of_single", rounded(float64(sent)/single))
	r.add("lost", lost)
	if err := each(ctx, n, release); err != nil {
		return err
	}
	runtime.KeepAlive(kept)
	return nil
}

// each runs f for 0 to n-1, 16 at a time.
func each(ctx context.Context, n int, f func(i int) error) error {
	const atATime = 16
	var group sync.WaitGroup
	faults := make(chan error, atATime)
	for worker := range atATime {
		group.Go(func() {
			for i := worker; i < n && ctx.Err() == nil; i += atATime {
				if err := f(i); err != nil {
					faults <- fmt.Errorf("lease %d of %d: %w", i, n, err)
					return
				}
			}
		})
	}
	group.Wait()
	close(faults)
	if err := <-faults; err != nil {
		return err
	}
	return ctx.Err()
}

// usage is the process's memory after a garbage collection, and its goroutines.
func usage() (heap uint64, goroutines int) {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
}
