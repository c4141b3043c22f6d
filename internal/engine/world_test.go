package engine

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/internal/routertest"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// epoch is the time at which every world begins, and n0 the first fence given
// out then: fences are never behind the clock.
var epoch = time.Date(2030, time.June, 1, 12, 0, 0, 0, time.UTC)

var n0 = epoch.UnixMilli()

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
	testing.TB
	hand  *mongo.Collection // the test's own access; not recorded
	lab   *mongo.Collection // the same collection for the engines; every command is recorded
	id    any               // the document's
	key   bson.D            // the shard key's equalities, in every filter
	clock time.Time

	mu   sync.Mutex
	sent []bson.Raw
}

// newWorld inserts the test's document; its _id is 1 if the fields have none.
func newWorld(t testing.TB, fields ...bson.E) *world {
	t.Helper()
	w := emptyWorld(t)
	w.insert(fields...)
	return w
}

// emptyWorld has no document yet.
func emptyWorld(t testing.TB, opts ...*options.CollectionOptionsBuilder) *world {
	t.Helper()
	w := &world{TB: t, id: int32(1), clock: epoch}
	w.hand = mongotest.Database(t).Collection("documents")
	client := mongotest.Client(t, options.Client().SetMonitor(w.monitor()))
	var listers []options.Lister[options.CollectionOptions]
	for _, o := range opts {
		listers = append(listers, o)
	}
	w.lab = client.Database(w.hand.Database().Name()).Collection(w.hand.Name(), listers...)
	return w
}

func (w *world) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.DatabaseName == w.hand.Database().Name() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.sent = append(w.sent, bytes.Clone(e.Command))
		}
	}}
}

// sharded makes the engines work through a router, in a collection that is
// sharded by the fields of key.
func (w *world) sharded(key bson.D) *routertest.Router {
	w.Helper()
	var fields []string
	for _, e := range key {
		fields = append(fields, e.Key)
	}
	router := routertest.Start(w, mongotest.URI(w))
	router.Shard(w.hand.Database().Name()+"."+w.hand.Name(), fields...)
	client := mongotest.Client(w, options.Client().ApplyURI(router.URI()).SetMonitor(w.monitor()))
	w.lab = client.Database(w.hand.Database().Name()).Collection(w.hand.Name())
	w.key = key
	return router
}

func (w *world) insert(fields ...bson.E) {
	w.Helper()
	if i := slices.IndexFunc(fields, func(e bson.E) bool { return e.Key == "_id" }); i >= 0 {
		w.id = fields[i].Value
	} else {
		fields = append(bson.D{{Key: "_id", Value: w.id}}, fields...)
	}
	if _, err := w.hand.InsertOne(w.Context(), bson.D(fields)); err != nil {
		w.Fatal(err)
	}
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
func (w *world) at(d time.Duration) { w.clock = epoch.Add(d) }

// plain is an engine of a collection without settings, for parsing.
var plain = &Engine{encoder: encoder{registry: plainRegistry}, field: DefaultField}

// filter names the document as a caller would.
func (w *world) filter() Filter {
	w.Helper()
	f, err := plain.ParseFilter(append(bson.D{{Key: "_id", Value: w.id}}, w.key...))
	if err != nil {
		w.Fatal(err)
	}
	return f
}

// document is what is stored.
func (w *world) document() bson.Raw {
	w.Helper()
	raw, err := w.hand.FindOne(w.Context(), bson.M{"_id": w.id}).Raw()
	if err != nil {
		w.Fatal(err)
	}
	return raw
}

// change writes to the document by hand, as an outside writer would.
func (w *world) change(update any) {
	w.Helper()
	result, err := w.hand.UpdateOne(w.Context(), bson.M{"_id": w.id}, update)
	if err != nil {
		w.Fatal(err)
	}
	if result.MatchedCount != 1 {
		w.Fatalf("the document %v is not there", w.id)
	}
}

// remove deletes the document by hand.
func (w *world) remove() {
	w.Helper()
	if _, err := w.hand.DeleteOne(w.Context(), bson.M{"_id": w.id}); err != nil {
		w.Fatal(err)
	}
}

// once runs one command of an engine and checks that it sends exactly one
// command.
func (w *world) once(name string, command func()) bson.Raw {
	w.Helper()
	before := w.commands()
	command()
	sent := w.commands()[len(before):]
	if len(sent) != 1 {
		w.Fatalf("%s sent %d commands, not one: %v", name, len(sent), sent)
	}
	return sent[0]
}

// commands are all commands that the engines have sent.
func (w *world) commands() []bson.Raw {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent)
}
