package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// runReaders has 32 goroutines hold the lock of one document for 2 ms at a
// time: one time in twenty the lock of a writer, otherwise that of a reader.
func runReaders(ctx context.Context, b *bench) error {
	const goroutines, hold, writersIn = 32, 2 * time.Millisecond, 20
	rounds, length := pick(b, 5, 2), pick(b, 3*time.Second, 600*time.Millisecond)
	all, closeAll, err := b.openAll(ctx, ttl, "doclock-read-preferring", "doclock-write-preferring", "doclock-fair", "monglock-multi", "mongolock-s")
	if err != nil {
		return err
	}
	defer closeAll()
	writes := map[string][]time.Duration{}
	var mu sync.Mutex
	for _, s := range all {
		b.newResult("readers", s.name)
		if err := warmUp(ctx, s, goroutines); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for turn := range rounds {
		b.say("  round %d of %d", turn+1, rounds)
		for _, s := range shuffled(all) {
			key := fmt.Sprintf("readers %s %d", s.name, turn)
			if err := b.servers.document(ctx, key, small); err != nil {
				return err
			}
			if unlock, err := s.subject.(locker).lock(ctx, key); err != nil { // some locks must be created first
				return err
			} else if err := unlock(ctx); err != nil {
				return err
			}
			w, err := window(ctx, goroutines, length, s, func(ctx context.Context, _ int) error {
				lock, write := s.subject.(sharer).lockShared, rand.N(writersIn) == 0
				if write {
					lock = s.subject.(sharer).lock
				}
				begun := time.Now()
				unlock, err := lock(ctx, key)
				if err != nil {
					return err
				}
				if write {
					mu.Lock()
					writes[s.name] = append(writes[s.name], time.Since(begun))
					mu.Unlock()
				}
				time.Sleep(hold)
				return unlock(context.WithoutCancel(ctx))
			})
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			r := b.find("readers", s.name)
			r.rounds = append(r.rounds, w.round)
		}
	}
	for _, s := range all {
		r := b.find("readers", s.name)
		r.add("writes", len(writes[s.name]))
		r.add("write_wait_p50_ms", rounded(micros(percentile(writes[s.name], 50))/1000))
		r.add("write_wait_p99_ms", rounded(micros(percentile(writes[s.name], 99))/1000))
	}
	b.fairness("readers")
	return nil
}
