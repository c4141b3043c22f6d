package writelock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/writelock"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// place is one order, _id 1 and total 1, in a collection of the test's own.
type place struct {
	*fixture.Document
}

var order = bson.M{"_id": 1}

func newPlace(t testing.TB) *place {
	t.Helper()
	return &place{Document: fixture.NewDocument(t, bson.E{Key: "total", Value: 1})}
}

// calm is the TTL of leases on the real server: they outlive whatever keeps the machine busy.
const calm = 30 * time.Second

// locker makes a Locker that must come to rest before the test is over.
func (p *place) locker(coll *mongo.Collection, opts ...doclock.Option) *writelock.Locker {
	p.Helper()
	l, err := writelock.New(coll, append([]doclock.Option{doclock.TTL(calm), waitTTL(calm)}, opts...)...)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := fixture.Rested(l.Close(fixture.Bounded(p))); err != nil {
			p.Errorf("Close: %v", err)
		}
	})
	return l
}

func (p *place) try(l *writelock.Locker) doclock.Lease {
	p.Helper()
	lease, err := l.TryAcquire(fixture.Bounded(p), order)
	if err != nil {
		p.Fatalf("TryAcquire: %v", err)
	}
	return lease
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
	ID bson.Binary
}

func (e entry) of(lease doclock.Lease) bool { return uuid.UUID(e.ID.Data) == lease.ID() }

type document struct {
	Lock struct{ Tags struct{ Write []entry } }
}

func (p *place) stored() (d document) {
	p.Helper()
	p.Decode(&d)
	return d
}

// free fails if the order is locked.
func (p *place) free() {
	p.Helper()
	if got := p.stored().Lock.Tags.Write; len(got) != 0 {
		p.Errorf("the entries in the document are %+v", got)
	}
}

// waitTTL is for how long a waiting entry lives after each confirm.
func waitTTL(d time.Duration) doclock.Option {
	return engine.Option(func(c *engine.Config) error {
		c.WaitTTL = d
		return nil
	})
}
