package lease

import (
	"context"
	"slices"
	"sync"

	"github.com/doclock/doclock/internal/attempt"
)

// gate is a mutex of commands, in the order of arrival. Unlike with a sync.Mutex, a
// caller can give up waiting for it, and a goroutine can unlock what another has
// locked. It allocates nothing while nobody waits.
type gate struct {
	mu      sync.Mutex
	locked  bool
	waiting []chan struct{} // each is closed when its waiter has the gate
}

// lockContext waits for the gate, or for the end of ctx.
func (g *gate) lockContext(ctx context.Context) error {
	if ctx.Err() != nil {
		return attempt.Ended(ctx)
	}
	mine := g.wait()
	if mine == nil {
		return nil
	}
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		g.giveUp(mine)
		return attempt.Ended(ctx)
	}
}

// lock waits for the gate without end.
func (g *gate) lock() {
	if mine := g.wait(); mine != nil {
		<-mine
	}
}

// tryLock locks the gate if it is free.
func (g *gate) tryLock() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.locked {
		return false
	}
	g.locked = true
	return true
}

func (g *gate) isLocked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.locked
}

func (g *gate) unlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.locked, g.waiting = false, nil
		return
	}
	close(g.waiting[0])
	g.waiting = g.waiting[1:]
}

// wait locks a free gate and returns nil, or joins the waiters.
func (g *gate) wait() (mine chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.locked {
		g.locked = true
		return nil
	}
	mine = make(chan struct{})
	g.waiting = append(g.waiting, mine)
	return mine
}

// giveUp takes a waiter out. A waiter who has the gate by now passes it on to the
// next.
func (g *gate) giveUp(mine chan struct{}) {
	g.mu.Lock()
	i := slices.Index(g.waiting, mine)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 {
		g.unlock()
	}
}
