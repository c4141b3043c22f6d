package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// runTakeover kills the process that holds a lock for 2 s, 100 ms after its
// grant, and measures how long a waiter has to go on waiting. The four-step
// lock is left out: its waiter would wait for ever.
func runTakeover(ctx context.Context, b *bench) error {
	const life = 2 * time.Second
	all, closeAll, err := b.openAll(ctx, life, "doclock", "doclock-fair", "monglock-write", "mongolock-x", "find-upsert", "redislock", "redsync", "etcd")
	if err != nil {
		return err
	}
	defer closeAll()
	for _, s := range all {
		b.newResult("takeover", s.name).add("ttl_ms", life.Milliseconds())
	}
	for n := range pick(b, 5, 2) {
		var group sync.WaitGroup
		faults := make([]error, len(all))
		took := make([]time.Duration, len(all))
		sent := make([]int64, len(all))
		for i, s := range all {
			group.Go(func() {
				before := s.sent().total()
				took[i], faults[i] = b.takeOver(ctx, s, fmt.Sprintf("takeover %s %d", s.name, n), life)
				sent[i] = s.sent().total() - before
			})
		}
		group.Wait()
		if err := errors.Join(faults...); err != nil {
			return err
		}
		for i, s := range all {
			r := b.find("takeover", s.name)
			r.rounds = append(r.rounds, round{latencies: took[i : i+1], took: took[i], commands: sent[i]})
		}
	}
	return nil
}

func (b *bench) takeOver(ctx context.Context, s named, key string, life time.Duration) (time.Duration, error) {
	if err := b.servers.document(ctx, key, small); err != nil {
		return 0, err
	}
	holder, err := b.spawn(errand{Role: "holder", Subject: s.name, Key: key, TTL: life})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s.name, err)
	}
	if _, err := holder.hear(); err != nil { // it has the lock
		return 0, fmt.Errorf("%s: %w", s.name, errors.Join(err, holder.end()))
	}
	killed := make(chan time.Time, 1)
	timer := time.AfterFunc(100*time.Millisecond, func() { killed <- time.Now(); holder.kill() })
	ctx, cancel := context.WithTimeout(ctx, 10*life)
	defer cancel()
	unlock, err := s.subject.(locker).lock(ctx, key)
	granted := time.Now()
	if timer.Stop() {
		holder.kill()
		return 0, fmt.Errorf("%s: the lock was granted beside its holder", s.name)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s.name, err)
	}
	return granted.Sub(<-killed), unlock(context.WithoutCancel(ctx))
}
