package attempt

import "context"

// Gate is a mutex of commands, or has room for several at a time. A caller can give up waiting
// for it, and a goroutine can unlock what another has locked.
type Gate chan struct{}

// Lock waits for the gate, or for the end of ctx.
func (g Gate) Lock(ctx context.Context) error {
	if ctx.Err() != nil {
		return Ended(ctx)
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return Ended(ctx)
	}
}

func (g Gate) TryLock() bool {
	select {
	case g <- struct{}{}:
		return true
	default:
		return false
	}
}

// Fill takes all places of a gate that has several. One caller does at a time.
func (g Gate) Fill(ctx context.Context) error {
	for i := range cap(g) {
		if err := g.Lock(ctx); err != nil {
			g.Drain(i)
			return err
		}
	}
	return nil
}

func (g Gate) TryFill() bool {
	for i := range cap(g) {
		if !g.TryLock() {
			g.Drain(i)
			return false
		}
	}
	return true
}

func (g Gate) Drain(places int) {
	for range places {
		g.Unlock()
	}
}

func (g Gate) Unlock() { <-g }
