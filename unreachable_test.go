package doclock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// goneServer is a rig whose server was reached, and refuses connections now, as
// the library knows by an acquire that failed.
func goneServer(t *testing.T) (*rig, doclock.Lease) {
	r := newRig(t, realTime, doclock.TTL(time.Minute))
	lease := r.acquire()
	r.net.Down(true)
	t.Cleanup(func() { r.net.Down(false) })
	if _, err := r.locks.TryAcquire(t.Context(), bson.M{"_id": 2}, "write"); !errors.Is(err, doclock.ErrNotAcquired) {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // the attempt may end a moment later than its caller's wait
	return r, lease
}

// wantUnsent demands an error that says why nothing was sent, and nothing else.
func wantUnsent(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, doclock.ErrOutcomeUnknown) || errors.Is(err, doclock.ErrLost) {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, word := range []string{"server selection error", "connection refused", "locktest:27017"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s doesn't say %q: %v", what, word, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%s takes several lines: %q", what, err)
	}
}

// What never left was not executed: a write that could not be sent is none of
// unknown outcome, and the error says why. None comes late, though the driver
// may know a server when the caller gives up.
func TestWriteThatCantBeSent(t *testing.T) {
	for name, write := range map[string]func(doclock.Lease, context.Context) error{
		"Update": func(l doclock.Lease, ctx context.Context) error {
			return l.Update(ctx, bson.M{"$inc": bson.M{"count": 1}})
		},
		"UpdateAndRelease": func(l doclock.Lease, ctx context.Context) error {
			return l.UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"count": 1}})
		},
		"Delete": (doclock.Lease).Delete,
		"Renew":  (doclock.Lease).Renew,
	} {
		mongotest.RunVirtual(t, name, func(t *testing.T) {
			r, lease := goneServer(t)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			wantUnsent(t, name, write(lease, ctx))

			ctx, giveUp := context.WithCancel(t.Context())
			written := make(chan error, 1)
			go func() { written <- write(lease, ctx) }()
			time.Sleep(200 * time.Millisecond)
			r.net.Down(false)
			if err := r.doc.FindOne(t.Context(), bson.M{}).Err(); err != nil {
				t.Error(err)
			}
			giveUp()
			if err := <-written; !errors.Is(err, context.Canceled) || errors.Is(err, doclock.ErrOutcomeUnknown) {
				t.Error(err)
			}
			time.Sleep(time.Second)
			_ = lease.Release(t.Context()) // after it nothing of the lease's can come
			fixture.Eventually(t, "the document is free", func() bool { return len(r.stored().Lock.Tags["write"]) == 0 })
			if n := r.stored().Count; n != 0 {
				t.Errorf("it was written %d times", n)
			}
		})
	}
}
