package attempt_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// The caller gets its answer at once, abandoned gets the result, and Close
// waits for both.
func TestRunOutlivesItsCaller(t *testing.T) {
	g := attempt.NewGroup()
	cause := errors.New("gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	finish, abandoned := make(chan struct{}), make(chan int, 1)
	begun := make(chan struct{})
	go func() {
		<-begun
		cancel(cause)
	}()
	_, err := attempt.Run(ctx, g, func() int {
		close(begun)
		<-finish
		return 7
	}, func(n int) { abandoned <- n })
	if !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := g.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with work left = %v", err)
	}
	close(finish)
	if err := g.Wait(t.Context()); err != nil {
		t.Errorf("Wait = %v", err)
	}
	if n := <-abandoned; n != 7 {
		t.Errorf("abandoned %d", n)
	}
}

// Exactly one of the caller and abandoned gets the result, even if the context
// ends at the moment when the work does.
func TestRunHandsTheResultToExactlyOne(t *testing.T) {
	g := attempt.NewGroup()
	for i := range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		abandoned := make(chan int, 1)
		go cancel()
		got, err := attempt.Run(ctx, g, func() int { return i + 1 }, func(n int) { abandoned <- n })
		if err == nil {
			if got != i+1 {
				t.Fatalf("got %d", got)
			}
			select {
			case <-abandoned:
				t.Fatal("the result went to both")
			default:
			}
		} else if n := <-abandoned; n != i+1 {
			t.Fatalf("abandoned %d", n)
		}
	}
	if err := g.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestClosingIsToldToWaiters(t *testing.T) {
	g := attempt.NewGroup()
	closing := g.Closing()
	for range 2 {
		g.Close()
	}
	select {
	case <-closing:
	default:
		t.Error("it is not told")
	}
	done := make(chan struct{})
	g.Go(func() { close(done) }) // work that begins later still runs
	<-done
	if err := g.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// bounds are a Locker's, with the default patience.
var bounds = engine.Attempts{Timeout: time.Second, RetryLimit: engine.DefaultRetryLimit}

type key struct{}

func TestDetachedKeepsValuesOnly(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, 7), time.Hour)
	cancel()
	detached := attempt.Detached(ctx)
	if _, limited := detached.Deadline(); limited || detached.Err() != nil || detached.Value(key{}) != 7 {
		t.Errorf("limited %v, err %v, value %v", limited, detached.Err(), detached.Value(key{}))
	}
}

// An error without a Failure in its chain is of unknown outcome. The command is
// repeated until an answer comes or the context ends.
func TestSettleRepeatsTheUnknown(t *testing.T) {
	lost := errors.New("connection lost")
	n := 0
	unsure, err := attempt.Settle(t.Context(), bounds, func(ctx context.Context) error {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("an attempt without a deadline")
		}
		if n++; n < 3 {
			return lost
		}
		return nil
	})
	if n != 3 || err != nil || !errors.Is(unsure, lost) {
		t.Errorf("%d attempts, unsure %v, err %v", n, unsure, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	n = 0
	unsure, err = attempt.Settle(ctx, bounds, func(attemptCtx context.Context) error {
		n++
		cancel()
		if attemptCtx.Err() != nil {
			t.Error("the caller's end reached the attempt")
		}
		return lost
	})
	if n != 1 || !errors.Is(err, lost) || !errors.Is(unsure, lost) {
		t.Errorf("%d attempts, unsure %v, err %v", n, unsure, err)
	}
}
