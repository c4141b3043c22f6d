package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A release that was not executed while the lease was valid: the lock was held until
// the command's end, so the code is the command's.
func TestReleaseIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		ttl  time.Duration
		code int
	}{"in time": {time.Hour, 3}, "late": {time.Second, exitUnknown}} {
		mem := locktest.New(t)
		coll := mem.Collection("locks", bson.M{"_id": 1})
		locks, err := writelock.New(coll)
		must(t, err)
		lease, err := locks.TryAcquire(t.Context(), doclock.ID(1), doclock.TTL(c.ttl))
		must(t, err)
		if c.code == exitUnknown {
			<-lease.Done()
		}
		mem.Fail(1, mongo.CommandError{Code: unauthorized}, locktest.Releases)
		var said strings.Builder
		err = (&cli{err: &said}).released(lease, target{text: "nightly"}, held{}, nil, &ending{code: 3}, nil)
		var ended *ending
		if !errors.As(err, &ended) || ended.code != c.code {
			t.Errorf("%s: it ended with %v", name, err)
		}
		if told := strings.Contains(said.String(), "stands until it expires"); told != (c.code == 3) {
			t.Errorf("%s: it said %q", name, said.String())
		}
	}
}

// The Ctrl-C that has ended the command comes a moment later, and doesn't end the
// release after it. A later one does.
func TestUntilSignalIsDeafAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for after, ends := range map[time.Duration]bool{500 * time.Millisecond: false, 2 * time.Second: true} {
			signals := make(chan os.Signal)
			ctx, stop := untilSignal(t.Context(), signals, time.Second)
			passed(t.Context(), after)
			signals <- os.Interrupt
			synctest.Wait()
			ended := ctx.Err() != nil
			if s := stop(); ended != ends || (s != nil) != ends {
				t.Errorf("after %v: ended %v, by %v", after, ended, s)
			}
		}
	})
}

// A signal ends a subcommand, also one that waits for stdin, as "rules -" does, or for the
// reader of its output.
func TestASignalEndsWorkThatDoesNotLookAtIt(t *testing.T) {
	begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	defer close(release)
	run := action(func(context.Context, []string) error { close(begun); <-release; return nil })
	go func() { ended <- run(nil, nil) }()
	<-begun
	must(t, syscall.Kill(os.Getpid(), syscall.SIGTERM)) // which action catches
	select {
	case err := <-ended:
		var end *ending
		if !errors.As(err, &end) || end.code != 143 {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(mongotest.Patience):
		t.Error("it waits for its work")
	}
}

// A lease that has ended before the command began is no fault of the command.
func TestTheLeaseEndedBeforeTheCommand(t *testing.T) {
	kept, end := context.WithCancelCause(t.Context())
	end(doclock.ErrLost)
	ended := (&guarded{kept: kept}).run("/bin/sh", []string{"sh", "-c", "exit 0"}, os.Environ())
	if ended.err == nil || ended.code == exitNotExecutable || strings.Contains(ended.Error(), "executed") {
		t.Errorf("it ended with %v", ended)
	}
}
