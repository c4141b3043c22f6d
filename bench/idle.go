package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// runIdle counts the commands of 1, 10 and 100 waiters of one process while
// another client holds the lock. All subjects wait at the same time, because
// none of them has any work.
func runIdle(ctx context.Context, b *bench) error {
	length := pick(b, 30*time.Second, 6*time.Second)
	const long = 2 * time.Minute // no lock expires in the meantime
	var groups []*idlers
	for _, n := range []int{1, 10, 100} {
		all, closeAll, err := b.openAll(ctx, long, "doclock", "doclock-fair", "monglock-write", "mongolock-x", "four-step", "find-upsert", "redislock", "redsync", "etcd")
		if err != nil {
			return err
		}
		defer closeAll()
		for _, s := range all {
			g := &idlers{s: s, n: n, key: fmt.Sprintf("idle %s %d", s.name, n)}
			if err := g.prepare(ctx, b, long); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			defer g.free()
			groups = append(groups, g)
		}
	}
	b.say("  waiting for %v", length)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, g := range groups {
		g.wait(ctx)
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, g := range groups {
		commands := g.s.sent().total() - g.before
		g.result = b.newResult("idle", g.s.name)
		g.result.add("waiters", g.n)
		g.result.add("window_s", length.Seconds())
		g.result.add("commands", commands)
	}
	cancel()
	var faults []error
	for _, g := range groups {
		g.waiters.Wait()
		switch {
		case g.fault == nil:
		case rival(g.s.name):
			g.result.add("FAILED", g.fault)
		default:
			faults = append(faults, fmt.Errorf("%s: %w", g.s.name, g.fault))
		}
	}
	return errors.Join(faults...)
}

// idlers are the waiters of one lock.
type idlers struct {
	s       named
	n       int
	key     string
	before  int64
	result  *result
	free    func() // the holder's release
	waiters sync.WaitGroup
	mu      sync.Mutex
	fault   error
}

// prepare has another client, with its own connections, acquire the lock.
func (g *idlers) prepare(ctx context.Context, b *bench, ttl time.Duration) error {
	if err := b.servers.document(ctx, g.key, small); err != nil {
		return err
	}
	if w, needs := g.s.subject.(warmer); needs {
		if err := w.warm(ctx, g.n); err != nil {
			return err
		}
	}
	holder, err := open(ctx, &b.servers, g.s.name, ttl)
	if err != nil {
		return err
	}
	unlock, err := holder.(locker).lock(ctx, g.key)
	g.free = func() {
		if err == nil {
			_ = unlock(context.WithoutCancel(ctx))
		}
		holder.close()
	}
	return err
}

func (g *idlers) wait(ctx context.Context) {
	g.before = g.s.sent().total()
	for range g.n {
		g.waiters.Go(func() {
			_, err := g.s.subject.(locker).lock(ctx, g.key)
			if err == nil {
				err = errors.New("a second holder was let in")
			}
			if !cutOff(ctx, err) {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.fault = err
			}
		})
	}
}
