package admin_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// place is a collection of the test's own, a record of the commands that the
// code under test sends to it, and a server's clock that is turned by hand.
type place struct {
	*fixture.Document
	clock fixture.Clock
	sent  fixture.Commands
	coll  *mongo.Collection // its commands are recorded
}

// newPlace has no document yet, and has the test run beside others.
func newPlace(t *testing.T) *place {
	t.Parallel()
	return alone(t)
}

func alone(t testing.TB) *place {
	t.Helper()
	p := &place{Document: fixture.NoDocument(t)}
	p.coll = p.Through(options.Client().SetMonitor(p.sent.Monitor()))
	return p
}

// clocked has a call go by the place's clock.
func (p *place) clocked() admin.Option { return admin.DrivenBy(p.clock.Now) }

// at is a time on the place's clock, counted from its beginning.
func at(d time.Duration) time.Time { return fixture.Epoch.Add(d) }

// named is an id that shows a name in a failed comparison.
func named(name string) uuid.UUID {
	id := uuid.UUID([]byte("................"))
	copy(id[:], name)
	return id
}

func binary(id uuid.UUID) bson.Binary { return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]} }

// entry is one as it is stored. A fence of 0 is that of a waiting entry. What is
// given besides comes in the place of these fields, or beside them.
func entry(name string, seq, fence int64, expires time.Duration, more ...bson.E) bson.D {
	e := bson.D{
		{Key: "id", Value: binary(named(name))}, {Key: "owner", Value: "of " + name}, {Key: "seq", Value: seq},
		{Key: "since", Value: at(-time.Minute)}, {Key: "expires", Value: at(expires)},
	}
	if fence != 0 {
		e = append(e, bson.E{Key: "fence", Value: fence})
	}
	for _, field := range more {
		e = append(slices.DeleteFunc(e, func(old bson.E) bool { return old.Key == field.Key }), field)
	}
	return e
}

// lock is a lock field as it is stored.
func lock(fence int64, tags ...bson.E) bson.E {
	return bson.E{Key: "lock", Value: bson.D{{Key: "fence", Value: fence}, {Key: "tags", Value: bson.D(tags)}}}
}

func tag(name string, entries ...bson.D) bson.E {
	array := bson.A{}
	for _, e := range entries {
		array = append(array, e)
	}
	return bson.E{Key: name, Value: array}
}

func owner(name string) bson.E { return bson.E{Key: "owner", Value: name} }

func idIs(id any) bson.E { return bson.E{Key: "_id", Value: id} }

// stored is the document with this _id, or nil.
func (p *place) stored(id any) bson.Raw {
	p.Helper()
	raw, err := p.Hand.FindOne(context.Background(), doclock.ID(id)).Raw()
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		p.Fatal(err)
	}
	return raw
}

func (p *place) inspect(id any, opts ...admin.Option) *admin.Lock {
	p.Helper()
	l, err := admin.Inspect(fixture.Bounded(p), p.Hand, doclock.ID(id), opts...)
	if err != nil {
		p.Fatalf("Inspect: %v", err)
	}
	return l
}

// whenFirst is the place's collection through a client of its own. What happens
// then is done after the first command of this name, before the client goes on.
func (p *place) whenFirst(command string, then func(), client *options.ClientOptions) *mongo.Collection {
	var once sync.Once
	return p.Through(client.SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == command {
			once.Do(then)
		}
	}}))
}

// list reads what a query finds. Foreign fields are left out, and counted.
func (p *place) list(q admin.Query, opts ...admin.Option) (entries []admin.Entry, foreign int) {
	p.Helper()
	for e, err := range admin.Entries(fixture.Bounded(p), p.coll, q, opts...) {
		switch {
		case errors.Is(err, doclock.ErrForeignLock):
			foreign++
		case err != nil:
			p.Fatalf("Entries(%+v): %v", q, err)
		default:
			entries = append(entries, e)
		}
	}
	return entries, foreign
}

// names are those of the entries' ids.
func names(entries []admin.Entry) (names []string) {
	for _, e := range entries {
		names = append(names, string(bytes.TrimRight(e.ID[:], ".")))
	}
	return names
}

func sorted(names []string) []string { slices.Sort(names); return names }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errOf is the error of a call that also returns something else.
func errOf[T any](_ T, err error) error { return err }

// first is the error that comes first, or nil.
func first(entries iter.Seq2[admin.Entry, error]) error {
	for _, err := range entries {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *place) want(err, target error) {
	p.Helper()
	if !errors.Is(err, target) {
		p.Errorf("got error %v, want one that is %q", err, target)
	}
}

// sends fails unless just these commands were sent since the last call.
func (p *place) sends(what string, want ...string) {
	p.Helper()
	if got := p.sent.Take(); !slices.Equal(got, want) {
		p.Errorf("%s sent %v, want %v", what, got, want)
	}
}

// indexOn makes a plain index: DocumentDB refuses $$NOW in a filter that it
// answers from one.
func indexOn(p *place, path string) {
	p.Helper()
	must(p, errOf(p.Hand.Indexes().CreateOne(context.Background(), mongo.IndexModel{Keys: bson.D{{Key: path, Value: 1}}})))
}
