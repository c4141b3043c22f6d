package main

import (
	"context"
	"fmt"
	"time"
)

// ttl is the TTL of the locks in the cases that don't wait for an expiry:
// doclock's default.
const ttl = 10 * time.Second

// runPair acquires and releases a lock without other clients.
func runPair(ctx context.Context, b *bench) error {
	return b.uncontended(ctx, func(s named, key string) error {
		lock := s.subject.(locker).lock
		if s.name == "mongolock-s" {
			lock = s.subject.(sharer).lockShared
		}
		unlock, err := lock(ctx, key)
		if err != nil {
			return err
		}
		return unlock(ctx)
	}, "plain", "doclock", "monglock-write", "monglock-multi", "mongolock-x", "mongolock-s", "four-step", "find-upsert", "redislock", "redsync", "etcd")
}

// writers are the subjects that read, compute and write without losing a write.
var writers = []string{"plain", "optimistic", "doclock", "monglock-write", "monglock-multi", "mongolock-x", "four-step", "find-upsert", "redislock", "redsync", "etcd"}

// runRMW increments a document without other clients.
func runRMW(ctx context.Context, b *bench) error {
	return b.uncontended(ctx, func(s named, key string) error {
		return s.subject.(incrementer).increment(ctx, key)
	}, writers...)
}

// uncontended runs op for each subject in turn, in short blocks.
func (b *bench) uncontended(ctx context.Context, op func(s named, key string) error, names ...string) error {
	kase, rounds, block := b.now.name, pick(b, 20, 5), pick(b, 40, 16)
	if b.now.over != nil {
		rounds, block = pick(b, 10, 3), pick(b, 12, 5)
	}
	all, closeAll, err := b.openAll(ctx, ttl, names...)
	if err != nil {
		return err
	}
	defer closeAll()
	for _, s := range all {
		b.newResult(kase, s.name)
		if err := b.servers.document(ctx, kase+" "+s.name, small); err != nil {
			return err
		}
	}
	for n := -1; n < rounds; n++ { // the first one warms up
		for _, s := range shuffled(all) {
			r, before := round{}, s.sent().total()
			for range block {
				start := time.Now()
				if err := op(s, kase+" "+s.name); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				r.latencies = append(r.latencies, time.Since(start))
				r.took += r.latencies[len(r.latencies)-1]
			}
			r.commands = s.sent().total() - before
			if n >= 0 {
				one := b.find(kase, s.name)
				one.rounds = append(one.rounds, r)
			}
		}
	}
	return nil
}
