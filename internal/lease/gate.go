package lease

import (
	"context"
	"slices"
	"sync"

	"github.com/doclock/doclock/internal/attempt"
)

// gate lets one command through at a time, in the order of arrival. Unlike a
// mutex, a caller can give up waiting for it, and another goroutine than the
// one that entered can leave it. It allocates nothing while nobody waits.
type gate struct {
	mu      sync.Mutex
	taken   bool
	waiting []chan struct{} // each is closed when the gate is its waiter's
}

// enter waits for the gate, or for the end of ctx.
func (g *gate) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return attempt.Ended(ctx)
	}
	turn := g.wait()
	if turn == nil {
		return nil
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		g.giveUp(turn)
		return attempt.Ended(ctx)
	}
}

// take waits for the gate without end.
func (g *gate) take() {
	if turn := g.wait(); turn != nil {
		<-turn
	}
}

// try enters if nobody is inside.
func (g *gate) try() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.taken {
		return false
	}
	g.taken = true
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.taken, g.waiting = false, nil
		return
	}
	close(g.waiting[0])
	g.waiting = g.waiting[1:]
}

// wait enters at once, and returns nil, or joins the waiters.
func (g *gate) wait() (turn chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.taken {
		g.taken = true
		return nil
	}
	turn = make(chan struct{})
	g.waiting = append(g.waiting, turn)
	return turn
}

// giveUp takes a waiter out. One whose turn has come meanwhile leaves the gate
// to the next.
func (g *gate) giveUp(turn chan struct{}) {
	g.mu.Lock()
	i := slices.Index(g.waiting, turn)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 {
		g.leave()
	}
}
