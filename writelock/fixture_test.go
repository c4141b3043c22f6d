package writelock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/writelock"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

// place is one order, _id 1 and total 1, in a collection of the test's own.
type place struct {
	testing.TB
	coll *mongo.Collection

	mu   sync.Mutex
	sent []string // the names of the commands of watched clients
}

var order = bson.M{"_id": 1}

// short is a TTL that a Locker's option refuses: it would not survive a broken
// connection. Tests have no time.
func short(ttl time.Duration) doclock.Option {
	return func(c *engine.Config) error {
		c.TTL = ttl
		return nil
	}
}

func newPlace(t testing.TB) *place {
	t.Helper()
	p := &place{TB: t, coll: mongotest.Database(t).Collection("orders")}
	if _, err := p.coll.InsertOne(t.Context(), bson.M{"_id": 1, "total": 1}); err != nil {
		t.Fatal(err)
	}
	return p
}

// watched is the collection through a client whose commands are noted.
func (p *place) watched() *mongo.Collection {
	p.Helper()
	name := p.coll.Database().Name()
	client := mongotest.Client(p, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.DatabaseName == name {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.sent = append(p.sent, e.CommandName)
			}
		},
	}))
	return client.Database(name).Collection(p.coll.Name())
}

// sends fails unless just n commands were sent since the last call.
func (p *place) sends(n int, what string) {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sent) != n || slices.ContainsFunc(p.sent, func(s string) bool { return s != "findAndModify" }) {
		p.Errorf("%s sent %v; want %d", what, p.sent, n)
	}
	p.sent = nil
}

// locker makes a Locker that must come to rest before the test is over.
func (p *place) locker(coll *mongo.Collection, opts ...doclock.Option) *writelock.Locker {
	p.Helper()
	l, err := writelock.New(coll, opts...)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := l.Close(p.bounded()); err != nil {
			p.Errorf("Close: %v", err)
		}
	})
	return l
}

func (p *place) bounded() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p.Cleanup(cancel)
	return ctx
}

func (p *place) try(l *writelock.Locker, opts ...doclock.AcquireOption) *doclock.Lease {
	p.Helper()
	lease, err := l.TryAcquire(p.bounded(), order, opts...)
	if err != nil {
		p.Fatalf("TryAcquire: %v", err)
	}
	return lease
}

func (p *place) release(lease *doclock.Lease) {
	p.Helper()
	if err := lease.Release(p.bounded()); err != nil {
		p.Fatalf("Release: %v", err)
	}
}

func (p *place) want(err error, targets ...error) {
	p.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			p.Errorf("got error %v, want one that is %q", err, target)
		}
	}
}

// entry is a lock as it stands in a document.
type entry struct {
	ID             bson.Binary
	Fence          int64
	Since, Expires time.Time
}

func (e entry) of(lease *doclock.Lease) bool { return uuid.UUID(e.ID.Data) == lease.ID() }

type document struct {
	Total int
	Lock  struct{ Tags struct{ Write []entry } }
}

func (p *place) document(filter bson.M) document {
	p.Helper()
	var d document
	if err := p.coll.FindOne(context.Background(), filter).Decode(&d); err != nil {
		p.Fatal(err)
	}
	return d
}

// heldBy fails unless the order is locked by this lease alone, or by nobody.
func (p *place) heldBy(lease *doclock.Lease) {
	p.Helper()
	switch got := p.document(order).Lock.Tags.Write; {
	case lease == nil && len(got) != 0, lease != nil && (len(got) != 1 || !got[0].of(lease)):
		p.Errorf("the entries in the document are %+v", got)
	}
}

// clock is the server's time in the test's hand.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(time.Date(2030, time.June, 1, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) pass(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func (c *clock) drive() doclock.Option {
	return func(cfg *engine.Config) error {
		cfg.Now = func() time.Time { return time.UnixMilli(c.ms.Load()).UTC() }
		return nil
	}
}
