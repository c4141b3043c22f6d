package scenarios

import (
	"fmt"
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
	own   *values // of the caller's
}

func (s *stage) scene(opts ...doclock.Option) *scene {
	s.Helper()
	locks, err := multilock.New(s.docs, relations.WritePreferring(), append([]doclock.Option{doclock.Owner("swept"), doclock.TTL(30 * time.Second)}, opts...)...)
	s.must(err)
	sc := &scene{stage: s, id: uuid.NewString(), locks: locks}
	_, err = s.other.InsertMany(s.Context(), []any{bson.M{"_id": sc.id, "count": 0}, bson.M{"_id": sc.decoyID(), "count": 0}})
	s.must(err)
	return sc
}

// close waits for the background work of the scene's locker.
func (s *scene) close() {
	s.Helper()
	s.net.Disarm()
	s.must(s.locks.Close(s.Context()))
}

// others is a locker of another program.
func (s *scene) others() *multilock.Locker {
	locks, err := multilock.New(s.other, relations.WritePreferring(), doclock.TTL(time.Minute), doclock.Owner("others"))
	s.must(err)
	return locks
}

// holds acquires the lock.
func (s *scene) holds(tag string) *doclock.Lease {
	s.Helper()
	lease, err := s.locks.TryAcquire(s.Context(), s.filter(), tag)
	s.must(err)
	return lease
}

var increment = bson.M{"$inc": bson.M{"count": 1}}

func (s *scene) filter() bson.M { return bson.M{"_id": s.id} }

// decoyID names the document that no caller uses.
func (s *scene) decoyID() string { return s.id + ", never named" }

// change is an outside writer's.
func (s *scene) change(update bson.M) error {
	_, err := s.other.UpdateOne(s.Context(), s.filter(), update)
	return err
}

// raw is the document as it is stored, or nil.
func (s *scene) raw() bson.Raw {
	raw, _ := s.other.FindOne(s.Context(), s.filter()).Raw()
	return raw
}

// stored is a document.
type stored struct {
	Count int
	Lock  struct {
		Fence int64
		Tags  map[string][]entry
	}
}

type entry struct {
	Owner   string
	Expires time.Time
}

// stored reads a document; missing is one that was deleted.
func (s *scene) stored(id string) (doc stored, missing bool) {
	s.Helper()
	err := s.other.FindOne(s.Context(), bson.M{"_id": id}).Decode(&doc)
	if err == mongo.ErrNoDocuments {
		return doc, true
	}
	s.must(err)
	return doc, false
}

// of lists an owner's entries.
func (d stored) of(owner string) (found []entry) {
	for _, entries := range d.Lock.Tags {
		for _, e := range entries {
			if e.Owner == owner {
				found = append(found, e)
			}
		}
	}
	return found
}

func (d stored) String() string { return fmt.Sprintf("count %d, lock %+v", d.Count, d.Lock) }
