package multilock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// noServer is a Locker whose client's address has no server.
func noServer(t *testing.T) *multilock.Locker {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1000"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := multilock.New(client.Database("none").Collection("none"), relations.Fair(), impatient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
		_ = client.Disconnect(ctx)
	})
	return l
}

// impatient stops trying to reach a server after a tenth of the time. The
// README's programs are run with the whole time.
func impatient(cfg *engine.Config) error {
	cfg.Patience = engine.DefaultPatience / 10
	return nil
}

// waysToAcquire are the ways to acquire; fn is called where Do is granted.
func waysToAcquire(l *multilock.Locker, fn func(), opts ...doclock.AcquireOption) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"TryAcquire": func(ctx context.Context) error { _, err := l.TryAcquire(ctx, flowers, "write"); return err },
		"by name":    func(ctx context.Context) error { _, err := l.TryAcquire(ctx, byName, "write"); return err },
		"Enqueue":    func(ctx context.Context) error { _, err := l.Enqueue(ctx, flowers, "write"); return err },
		"Acquire":    func(ctx context.Context) error { _, err := l.Acquire(ctx, flowers, "write", opts...); return err },
		"Do": func(ctx context.Context) error {
			return l.Do(ctx, flowers, "write", func(context.Context, *doclock.Lease) error { fn(); return nil }, opts...)
		},
	}
}

// wantUnreachable demands an error that says why no server was reached.
func wantUnreachable(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, doclock.ErrNotAcquired) || errors.Is(err, doclock.ErrOutcomeUnknown) {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, word := range []string{"server selection error", "127.0.0.1:1", "connection refused"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s doesn't say %q: %v", what, word, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%s takes several lines: %q", what, err)
	}
}

// A lease's commands without a deadline don't wait for ever either. Their writes
// are not applied, and the lease can be released once the server is back.
func TestALeaseWithoutAServer(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(context.Context, *doclock.Lease) error{
		"Update":           func(ctx context.Context, l *doclock.Lease) error { return l.Update(ctx, plusOne) },
		"UpdateAndRelease": func(ctx context.Context, l *doclock.Lease) error { return l.UpdateAndRelease(ctx, plusOne) },
		"Delete":           func(ctx context.Context, l *doclock.Lease) error { return l.Delete(ctx) },
		"Release":          func(ctx context.Context, l *doclock.Lease) error { return l.Release(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, net := p.faulty()
			lease := p.try(p.locker(coll, relations.Exclusive(), doclock.TTL(time.Minute), doclock.AttemptTimeout(time.Second), impatient), "write")
			net.Down(true)
			t.Cleanup(func() { net.Down(false) })
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = lease.Renew(short) // it finds that no server can be reached
			begun := time.Now()
			err := write(context.Background(), lease)
			if took := time.Since(begun); err == nil || errors.Is(err, doclock.ErrOutcomeUnknown) || errors.Is(err, doclock.ErrLost) || took > 2*patience {
				t.Errorf("after %v: %v", took, err)
			}
			if !strings.Contains(err.Error(), "server selection error") || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("it doesn't say why: %v", err)
			}
			net.Down(false)
			p.release(lease)
			p.wantEntries()
			if total := p.raw().Lookup("total").AsInt64(); total != 1 {
				t.Errorf("the total is %d", total)
			}
		})
	}
}

// A caller's deadline ends before the library gives up: the error has the
// driver's reason too.
func TestNoServerBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	l := noServer(t)
	for name, call := range waysToAcquire(l, func() { t.Error("fn was called") }) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			err := call(ctx)
			wantUnreachable(t, name, err)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// Without a deadline no acquire waits for ever for a server, however many wait
// for the one that asks.
func TestNoServerWithoutADeadline(t *testing.T) {
	t.Parallel()
	l := noServer(t)
	var calls sync.WaitGroup
	begun := time.Now()
	for name, call := range waysToAcquire(l, func() { t.Error("fn was called") }) {
		for range 10 {
			calls.Go(func() {
				err := call(context.Background())
				wantUnreachable(t, name, err)
				if errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "server selection error: context deadline exceeded") {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); calls.Wait() }()
	select {
	case <-done:
		t.Logf("after %v", time.Since(begun).Round(time.Second))
	case <-time.After(patience): // three times as long as one call
		t.Fatal("a call still waits for a server")
	}
}
