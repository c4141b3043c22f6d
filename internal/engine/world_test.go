package engine

import (
	"testing"
	"time"

	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// epoch is the time at which every world begins, and n0 the first fence given
// out then: fences are never behind the clock.
var (
	epoch = fixture.Epoch
	n0    = epoch.UnixMilli()
)

// The configuration of a world's peers, and the times that the server uses: TTL
// or WaitTTL, and the tolerance.
const (
	ttl     = 10 * time.Second
	waitTTL = 4 * time.Second
	extra   = 500 * time.Millisecond
	held    = ttl + extra
	waits   = waitTTL + extra
)

// named is an id that shows a name in a failed comparison.
func named(name string) uuid.UUID {
	id := uuid.UUID([]byte("................"))
	copy(id[:], name)
	return id
}

var ann, bob, cid, dan, eve = named("ann"), named("bob"), named("cid"), named("dan"), named("eve")

// world is one document on the real server, a clock that the test sets by hand,
// and a record of the commands that the engines send.
type world struct {
	*fixture.Document
	lab   *mongo.Collection // where the engines work; every command is recorded
	key   bson.D            // the shard key's equalities, in every filter
	clock fixture.Clock
	sent  fixture.Commands
}

// newWorld inserts the test's document; its _id is 1 if the fields have none.
func newWorld(t testing.TB, fields ...bson.E) *world {
	t.Helper()
	w := emptyWorld(t)
	w.Insert(fields...)
	return w
}

// emptyWorld has no document yet.
func emptyWorld(t testing.TB, opts ...options.Lister[options.CollectionOptions]) *world {
	t.Helper()
	w := &world{Document: fixture.NoDocument(t)}
	w.lab = w.Through(options.Client().SetMonitor(w.sent.Monitor()), opts...)
	return w
}

// shardedWorld is on a sharded cluster of the test's own. The fields of key, which the document needn't have, are the
// shard key.
func shardedWorld(t testing.TB, key bson.D, fields ...bson.E) *world {
	t.Helper()
	mongotest.Own(t, locktest.Sharded())
	w := newWorld(t, fields...)
	ascending := bson.D{}
	for _, e := range key {
		ascending = append(ascending, bson.E{Key: e.Key, Value: 1})
	}
	w.Shard(ascending)
	w.key = key
	return w
}

// run is a subtest in the same world.
func (w *world) run(name string, body func(t *testing.T)) {
	outer := w.TB.(*testing.T)
	outer.Run(name, func(t *testing.T) {
		w.TB = t
		defer func() { w.TB = outer }()
		body(t)
	})
}

// at sets the clock, forwards or backwards, to a time after the epoch.
// Durations in expectations count from the epoch too.
func (w *world) at(d time.Duration) { w.clock.Set(epoch.Add(d)) }

// plain is an engine of a collection without settings, for parsing.
var plain = &Engine{encoder: encoder{registry: plainRegistry}, Config: Config{Field: DefaultField}}

// filter names the document as a caller would.
func (w *world) filter() Filter { return w.filterOf(nil) }

// filterOf is a filter that demands more.
func (w *world) filterOf(more bson.M) Filter {
	w.Helper()
	filter := append(bson.D{{Key: "_id", Value: w.ID}}, w.key...)
	for key, v := range more {
		filter = append(filter, bson.E{Key: key, Value: v})
	}
	f, err := plain.ParseFilter(filter)
	if err != nil {
		w.Fatal(err)
	}
	return f
}

// once returns the one command that was sent. Where the server has members, the proof of its negative answer may follow it.
func (w *world) once(name string, command func()) bson.Raw {
	w.Helper()
	before := w.sent.Count()
	command()
	sent := w.sent.All()[before:]
	if len(sent) != 1 && !(len(sent) == 2 && fixture.IsProof(sent[1]) && mongotest.HasMembers(w)) {
		w.Fatalf("%s sent %d commands, not one: %v", name, len(sent), sent)
	}
	return sent[0]
}
