package cases

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/doclock/doclock/bench/subjects"
)

// idleWaiters are the numbers of waiters.
var idleWaiters = []int{1, 10, 100}

// runIdle counts the commands of 1, 10 and 100 waiters of one process while
// another client holds the lock. All subjects wait at the same time, because
// none of them has any work.
func runIdle(ctx context.Context, r *Run, all []*subjects.Subject) error {
	length := pick(r, 30*time.Second, 6*time.Second)
	var groups []*idlers
	for i, s := range all {
		n := idleWaiters[i*len(idleWaiters)/len(all)]
		g := &idlers{Subject: s, n: n, key: fmt.Sprintf("%s %d", r.key(s), n)}
		free, err := g.hold(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		defer free()
		groups = append(groups, g)
	}
	r.Say("  waiting for %v", length)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, g := range groups {
		g.before = g.Sent.Total()
		for range g.n {
			g.waiters.Go(func() { g.wait(ctx) })
		}
	}
	if err := sleep(ctx, length); err != nil {
		return err
	}
	for _, g := range groups {
		g.sent = g.Sent.Total() - g.before
	}
	cancel()
	var faults []error
	for _, g := range groups {
		g.waiters.Wait()
		result := r.Results.New(r.now.Name, g.Name)
		result.Add("waiters", g.n)
		result.Add("window_s", length.Seconds())
		result.Add("commands", g.sent)
		switch {
		case g.fault == nil:
		case g.Rival():
			result.Add("FAILED", g.fault)
		default:
			faults = append(faults, fmt.Errorf("%s: %w", g.Name, g.fault))
		}
	}
	return errors.Join(faults...)
}

// idlers are the waiters of one lock.
type idlers struct {
	*subjects.Subject
	n            int
	key          string
	before, sent int64
	waiters      sync.WaitGroup
	mu           sync.Mutex
	fault        error
}

// hold has another client, with its own connections, acquire the lock.
func (g *idlers) hold(ctx context.Context, r *Run) (free func(), err error) {
	if err := errors.Join(g.Make(ctx, g.key, subjects.Small), g.Warm(g.n)); err != nil {
		return nil, err
	}
	holder, err := subjects.Open(&r.Servers, g.Name, r.now.ttl)
	if err != nil {
		return nil, err
	}
	unlock, err := holder.Lock(ctx, g.key)
	if err != nil {
		holder.Close()
		return nil, err
	}
	return func() {
		_ = unlock(context.WithoutCancel(ctx))
		holder.Close()
	}, nil
}

func (g *idlers) wait(ctx context.Context) {
	_, err := g.Lock(ctx, g.key)
	if err == nil {
		err = errors.New("a second holder was let in")
	}
	if !cutOff(ctx, err) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.fault = err
	}
}
