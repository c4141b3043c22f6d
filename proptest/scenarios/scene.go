package scenarios

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// stage is a collection with two clients: the library's, whose network fails on
// demand, and one for the test's own access.
type stage struct {
	counting
	net   *faultnet.Net
	docs  *mongo.Collection
	other *mongo.Collection
}

func newStage(t testing.TB, counts *tally.Tally) *stage {
	net, direct := faultnet.New(), mongotest.Database(t)
	client := mongotest.Client(t, options.Client().SetDialer(net).SetRetryWrites(false))
	name := "docs_" + uuid.NewString()[:8]
	return &stage{counting{t, counts}, net, client.Database(direct.Name()).Collection(name), direct.Collection(name)}
}

// scene is one document on a stage, with its own locker.
type scene struct {
	*stage
	id    string
	locks *multilock.Locker
}

// locker is some program's.
func (s *stage) locker(docs *mongo.Collection, opts ...doclock.Option) *multilock.Locker {
	s.Helper()
	locks, err := multilock.New(docs, relations.WritePreferring(), append(opts, doclock.TTL(30*time.Second))...)
	s.must(err)
	return locks
}

func (s *stage) scene(opts ...doclock.Option) *scene {
	s.Helper()
	sc := &scene{stage: s, id: uuid.NewString(), locks: s.locker(s.docs, opts...)}
	_, err := s.other.InsertOne(s.Context(), bson.M{"_id": sc.id, "count": 0})
	s.must(err)
	return sc
}

// holds acquires the lock.
func (s *scene) holds(tag string) *doclock.Lease {
	s.Helper()
	lease, err := s.locks.TryAcquire(s.Context(), doclock.ID(s.id), tag)
	s.must(err)
	return lease
}

var increment = bson.M{"$inc": bson.M{"count": 1}}

// stored is a document.
type stored struct {
	Count int
	Lock  struct{ Tags map[string]bson.A }
}

// entries are those of all tags.
func (d stored) entries() (all bson.A) {
	return slices.Concat(slices.Collect(maps.Values(d.Lock.Tags))...)
}

// left reads the document; missing is one that was deleted.
func (s *scene) left() (doc stored, missing bool) {
	s.Helper()
	err := s.other.FindOne(s.Context(), doclock.ID(s.id)).Decode(&doc)
	if err != mongo.ErrNoDocuments {
		s.must(err)
	}
	return doc, err != nil
}
