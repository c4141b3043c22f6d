package doclock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// rig is one document {_id: 1, count: 0}, a locker on a network that fails on
// demand, and a client of its own for what others do to the document.
type rig struct {
	*testing.T
	net      *faultnet.Net
	sent     *fixture.Commands
	clock    *fixture.Clock
	locks    *multilock.Locker
	document *fixture.Document
	doc      *mongo.Collection // through the failing network
	other    *mongo.Collection // through a network that works
}

// newRig turns this machine's clocks by hand; realTime leaves them alone. A test on
// the real server runs beside others from here on.
func newRig(t *testing.T, opts ...doclock.Option) *rig {
	if !mongotest.IsVirtual() {
		t.Parallel()
	}
	document := fixture.NewDocument(t, bson.E{Key: "count", Value: 0})
	r := &rig{T: t, net: faultnet.New(), sent: &fixture.Commands{}, clock: &fixture.Clock{}, document: document, other: document.Hand}
	r.doc = document.Through(options.Client().SetDialer(r.net).SetMonitor(r.sent.Monitor()).SetRetryWrites(false))
	r.locks = r.locker(append([]doclock.Option{clocks(func() engine.Reading { return engine.Reading(r.clock.Read()) })}, opts...)...)
	r.sent.Take()
	return r
}

var realTime = clocks(nil)

// clocks are this machine's.
func clocks(read func() engine.Reading) doclock.Option {
	return engine.Option(func(c *engine.Config) error {
		c.Clock = read
		return nil
	})
}

func (r *rig) locker(opts ...doclock.Option) *multilock.Locker {
	r.Helper()
	locks, err := multilock.New(r.doc, relations.WritePreferring(), append([]doclock.Option{doclock.TTL(ttl), waitTTL(ttl)}, opts...)...)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := fixture.Rested(locks.Close(context.Background())); err != nil {
			r.Error(err)
		}
	})
	return locks
}

// acquire takes the write lock.
func (r *rig) acquire() doclock.Lease {
	r.Helper()
	lease, err := r.locks.TryAcquire(r.Context(), bson.M{"_id": 1}, "write")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = lease.Release(context.Background()) })
	r.sent.Take()
	return lease
}

// withAnother keeps a lease alive beside that of a second document, and lets the time pass after which they are due.
func (r *rig) withAnother(lease doclock.Lease) (kept context.Context) {
	r.Helper()
	if _, err := r.other.InsertOne(r.Context(), bson.M{"_id": 2}); err != nil {
		r.Fatal(err)
	}
	another, err := r.locks.TryAcquire(r.Context(), bson.M{"_id": 2}, "write")
	if err != nil {
		r.Fatal(err)
	}
	r.sent.Take()
	another.KeepAlive(r.Context())
	kept = lease.KeepAlive(r.Context())
	r.clock.Pass(ttl / 3)
	return kept
}

func (r *rig) wantSent(want ...string) {
	r.Helper()
	if sent := r.sent.Take(); !slices.Equal(sent, want) {
		r.Errorf("sent %v, want %v", sent, want)
	}
}

// stored is the document as it stands.
type stored struct {
	Count int
	Lock  struct {
		Fence int64
		Tags  map[string][]struct {
			ID      bson.Binary
			Fence   int64
			N       int64
			Expires time.Time
		}
		Done []bson.Binary
	}
}

func (r *rig) stored() (s stored) {
	r.Helper()
	r.document.Decode(&s)
	return s
}

// change is what an outside writer does to the document.
func (r *rig) change(update bson.M) {
	r.Helper()
	r.document.Change(update)
}

// takeOver lets another holder in, as after an expiry: the old entry is gone.
func (r *rig) takeOver() doclock.Lease {
	r.Helper()
	r.change(bson.M{"$unset": bson.M{"lock.tags": ""}})
	locks, err := multilock.New(r.other, relations.WritePreferring(), doclock.TTL(ttl), waitTTL(ttl))
	if err != nil {
		r.Fatal(err)
	}
	lease, err := locks.TryAcquire(r.Context(), bson.M{"_id": 1}, "write")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

// others lets n holders in, one after the other, each of which ends with a write.
func (r *rig) others(n int) {
	r.Helper()
	for range n {
		if err := r.takeOver().UpdateAndRelease(context.Background(), bson.M{"$set": bson.M{"other": 1}}); err != nil {
			r.Error(err)
		}
	}
}

// onNext calls f when the next command of this name that meets no other fault
// is about to be sent.
func (r *rig) onNext(command string, f func()) {
	var once sync.Once
	r.net.ArmWhere(faultnet.LoseRequest, func(name string, _ bson.Raw) bool {
		if name == command {
			once.Do(f)
		}
		return false
	})
}

// within waits for a channel that is closed by what must happen.
func within(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(fixture.Patience):
		t.Fatalf("it did not come about: %s", what)
	}
}

// waitTTL is for how long a waiting entry lives after each confirm.
func waitTTL(d time.Duration) doclock.Option {
	return engine.Option(func(c *engine.Config) error {
		c.WaitTTL = d
		return nil
	})
}
