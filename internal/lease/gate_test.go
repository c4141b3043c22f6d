package lease

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// The gate is entered in the order of arrival, except by a waiter who gives up.
func TestGateIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := make(gate, 1)
		g <- struct{}{}
		var entered []int
		givesUp, cancel := context.WithCancel(t.Context())
		for i := range 5 {
			ctx := t.Context()
			if i == 2 {
				ctx = givesUp
			}
			go func() {
				if err := g.lock(ctx); err != nil {
					if !errors.Is(err, context.Canceled) || i != 2 {
						t.Errorf("%d: %v", i, err)
					}
					return
				}
				entered = append(entered, i)
				g.unlock()
			}()
			synctest.Wait()
		}
		if g.tryLock() {
			t.Error("two are inside")
		}
		cancel()
		synctest.Wait()
		g.unlock()
		synctest.Wait()
		if want := []int{0, 1, 3, 4}; !slices.Equal(entered, want) {
			t.Errorf("entered in the order %v, want %v", entered, want)
		}
		if !g.tryLock() {
			t.Error("nobody is inside, and nobody can enter")
		}
	})
}

// A waiter who gives up at the moment when it is its turn passes the turn on.
func TestGateIsNotLost(t *testing.T) {
	g := make(gate, 1)
	for range 2000 {
		g <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if g.lock(ctx) == nil {
				g.unlock()
			}
		}()
		go cancel()
		g.unlock()
		<-ended
		g <- struct{}{} // which would wait for ever
		g.unlock()
		cancel()
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := g.lock(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("entered with an ended context: %v", err)
	}
}
