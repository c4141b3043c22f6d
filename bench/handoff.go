package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// runHandoff measures the time from the moment when one process begins to
// release, to the moment when a waiter in another process has the lock. The
// lock was held, and waited for, for 50 to 150 ms before.
func runHandoff(ctx context.Context, b *bench) error {
	kase, rounds, block := b.now.name, pick(b, 10, 2), pick(b, 10, 6)
	if b.now.over != nil {
		rounds = pick(b, 4, 1)
	}
	all, closeAll, err := b.openAll(ctx, ttl, "doclock", "doclock-fair", "monglock-write", "mongolock-x", "four-step", "find-upsert", "redislock", "redsync", "etcd")
	if err != nil {
		return err
	}
	defer closeAll()
	waiters := map[string]*process{}
	defer func() {
		for _, p := range waiters {
			p.kill()
		}
	}()
	for _, s := range all {
		key := kase + " " + s.name
		if err := b.servers.document(ctx, key, small); err != nil {
			return err
		}
		if waiters[s.name], err = b.spawn(errand{Role: "waiter", Subject: s.name, Key: key, TTL: ttl}); err != nil {
			return err
		}
		b.newResult(kase, s.name)
	}
	for range rounds {
		for _, s := range shuffled(all) {
			r := round{}
			for range block {
				d, err := passOn(ctx, s.subject.(locker), kase+" "+s.name, waiters[s.name])
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				r.latencies, r.took = append(r.latencies, d), r.took+d
			}
			one := b.find(kase, s.name)
			one.rounds = append(one.rounds, r)
		}
	}
	return nil
}

func passOn(ctx context.Context, l locker, key string, waiter *process) (time.Duration, error) {
	if _, err := waiter.hear(); err != nil { // it is ready, and has released the lock
		return 0, err
	}
	unlock, err := l.lock(ctx, key)
	if err != nil {
		return 0, err
	}
	if err := waiter.tell("wait"); err != nil {
		return 0, err
	}
	time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond))
	released := time.Now()
	if err := unlock(ctx); err != nil {
		return 0, err
	}
	granted, err := waiter.hearTime()
	return granted.Sub(released), err
}
