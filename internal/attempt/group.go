package attempt

import (
	"context"
	"sync"
)

// Group owns the goroutines of one locker. It is safe for concurrent use.
type Group struct {
	closing chan struct{} // closed by the first Close
	close   func()

	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when the last goroutine ends, while a Close waits for it
}

// NewGroup makes a group in which nothing runs.
func NewGroup() *Group {
	closing := make(chan struct{})
	return &Group{closing: closing, close: sync.OnceFunc(func() { close(closing) })}
}

// Closing returns a channel that is closed when the group is: waiters give up.
func (g *Group) Closing() <-chan struct{} { return g.closing }

// Closed says that the group is closing.
func (g *Group) Closed() bool { return IsClosed(g.closing) }

// IsClosed says that a channel is closed, on which nothing is sent.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Close marks the group as closing. Work that begins later still runs, because a
// lease that outlives its locker can be released.
func (g *Group) Close() { g.close() }

// Wait waits until nothing runs in the group, or ctx ends.
func (g *Group) Wait(ctx context.Context) error {
	g.mu.Lock()
	if g.running == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()

	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return Ended(ctx)
	}
}

// Enter counts work that Close waits for and that has no goroutine. It ends
// with a Leave.
func (g *Group) Enter() {
	g.mu.Lock()
	g.running++
	g.mu.Unlock()
}

// Leave ends what an Enter began.
func (g *Group) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.running == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Go runs f in a goroutine of the group.
func (g *Group) Go(f func()) {
	g.Enter()
	go func() {
		defer g.Leave()
		f()
	}()
}

// Run calls op in a goroutine of the group and returns its result. If ctx ends
// first, Run returns ctx's error at once; op runs on, and its result goes to
// abandoned, in the same goroutine. Exactly one of the caller and abandoned
// gets the result. Run calls op even if ctx has already ended: a release must
// be sent.
func Run[T any](ctx context.Context, g *Group, op func() T, abandoned func(T)) (T, error) {
	if ctx.Done() == nil { // the caller can't give up
		g.Enter()
		defer g.Leave()
		return op(), nil
	}
	result := make(chan T)
	g.Go(func() {
		r := op()
		select {
		case result <- r:
		case <-ctx.Done():
			abandoned(r)
		}
	})
	select {
	case r := <-result:
		return r, nil
	case <-ctx.Done():
		var none T
		return none, Ended(ctx)
	}
}
