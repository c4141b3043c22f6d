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
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// rig is one document {_id: 1, count: 0}, a locker on a network that fails on
// demand, and a client of its own for what others do to the document.
type rig struct {
	*testing.T
	net   *faultnet.Net
	sent  *sentCommands
	clock *handClock
	locks *multilock.Locker
	doc   *mongo.Collection // through the failing network
	other *mongo.Collection // through a network that works
}

// newRig turns this machine's clocks by hand; realTime leaves them alone.
func newRig(t *testing.T, opts ...doclock.Option) *rig {
	r := &rig{T: t, net: faultnet.New(), sent: &sentCommands{}, clock: newHandClock()}
	client := mongotest.Client(t, options.Client().SetDialer(r.net).SetMonitor(r.sent.monitor()).SetRetryWrites(false))
	db := mongotest.Database(t)
	r.other = db.Collection("things")
	r.doc = client.Database(db.Name()).Collection("things")
	if _, err := r.other.InsertOne(t.Context(), bson.M{"_id": 1, "count": 0}); err != nil {
		t.Fatal(err)
	}
	r.locks = r.locker(append([]doclock.Option{r.clock.option()}, opts...)...)
	r.sent.forget()
	return r
}

func realTime(c *engine.Config) error { c.Clock = nil; return nil }

// short is a TTL that a Locker's option refuses: it would not survive a broken
// connection. Tests have no time.
func short(ttl time.Duration) doclock.Option {
	return func(c *engine.Config) error {
		c.TTL = ttl
		return nil
	}
}

func (r *rig) locker(opts ...doclock.Option) *multilock.Locker {
	r.Helper()
	locks, err := multilock.New(r.doc, relations.WritePreferring(), opts...)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := locks.Close(context.Background()); err != nil {
			r.Error(err)
		}
	})
	return locks
}

// acquire takes the write lock.
func (r *rig) acquire() *doclock.Lease {
	r.Helper()
	lease, err := r.locks.TryAcquire(r.Context(), bson.M{"_id": 1}, "write")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = lease.Release(context.Background()) })
	r.sent.forget()
	return lease
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
	if err := r.other.FindOne(r.Context(), bson.M{"_id": 1}).Decode(&s); err != nil {
		r.Fatal(err)
	}
	return s
}

// change is what somebody else does to the document.
func (r *rig) change(update bson.M) {
	r.Helper()
	if _, err := r.other.UpdateOne(r.Context(), bson.M{"_id": 1}, update); err != nil {
		r.Error(err)
	}
}

// takeOver lets another holder in, as after an expiry: the old entry is gone.
func (r *rig) takeOver() *doclock.Lease {
	r.Helper()
	r.change(bson.M{"$unset": bson.M{"lock.tags": ""}})
	locks, err := multilock.New(r.other, relations.WritePreferring())
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

func within(t *testing.T, d time.Duration, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(d):
		t.Fatalf("%s: not within %v", what, d)
	}
}

// sentCommands records what a client sends.
type sentCommands struct {
	mu       sync.Mutex
	names    []string
	commands []bson.Raw
}

func (s *sentCommands) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.CommandName != "endSessions" {
			s.names = append(s.names, e.CommandName)
			s.commands = append(s.commands, slices.Clone(e.Command))
		}
	}}
}

func (s *sentCommands) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names, s.commands = nil, nil
}

func (s *sentCommands) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names)
}

func (s *sentCommands) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names)
}

// handClock is a machine's clocks, turned by hand.
type handClock struct {
	mu  sync.Mutex
	now engine.Reading
}

func newHandClock() *handClock {
	return &handClock{now: engine.Reading{Mono: time.Hour, Wall: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}}
}

func (c *handClock) option() doclock.Option {
	return func(cfg *engine.Config) error {
		cfg.Clock = func() engine.Reading {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.now
		}
		return nil
	}
}

func (c *handClock) turn(mono, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Mono += mono
	c.now.Wall = c.now.Wall.Add(wall)
}

func (c *handClock) pass(d time.Duration) { c.turn(d, d) }
