package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// stage is a collection with two clients: the library's, whose network fails on
// demand, and one for the test's own access.
type stage struct {
	net    *faultnet.Net
	client *mongo.Client
	doc    *mongo.Collection
	other  *mongo.Collection
}

func newStage(db *mongo.Database, uri string) (*stage, error) {
	net := faultnet.New()
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetDialer(net).SetRetryWrites(false))
	if err != nil {
		return nil, err
	}
	name := "faults_" + uuid.NewString()[:8]
	return &stage{net: net, client: client, doc: client.Database(db.Name()).Collection(name), other: db.Collection(name)}, nil
}

func (s *stage) close() {
	s.net.Disarm()
	_ = s.client.Disconnect(context.Background())
}

// scene is one document on a stage, with its own locker.
type scene struct {
	*stage
	id    string
	locks *multilock.Locker
	own   *values // of the caller's
}

func (s *stage) scene(ctx context.Context, opts ...doclock.Option) (*scene, error) {
	locks, err := multilock.New(s.doc, relations.WritePreferring(), append([]doclock.Option{
		doclock.TTL(5 * time.Second), doclock.Owner("swept"),
	}, opts...)...)
	if err != nil {
		return nil, err
	}
	sc := &scene{stage: s, id: uuid.NewString(), locks: locks}
	_, err = s.other.InsertMany(ctx, []any{bson.M{"_id": sc.id, "count": 0}, bson.M{"_id": sc.decoyID(), "count": 0}})
	return sc, err
}

var increment = bson.M{"$inc": bson.M{"count": 1}}

func (s *scene) filter() bson.M { return bson.M{"_id": s.id} }

// entry is one entry in the document.
type entry struct {
	ID      bson.Binary
	Owner   string
	Fence   int64
	Expires time.Time
}

type stored struct {
	Count int
	Lock  struct {
		Fence int64
		Tags  map[string][]entry
	}
}

func (s *scene) stored(ctx context.Context) (doc stored, err error) {
	err = s.other.FindOne(ctx, s.filter()).Decode(&doc)
	return doc, err
}

// entries lists the owners of all entries in the document.
func (d stored) entries(owner string) (found []entry) {
	for _, entries := range d.Lock.Tags {
		for _, e := range entries {
			if e.Owner == owner {
				found = append(found, e)
			}
		}
	}
	return found
}

func (d stored) String() string {
	return fmt.Sprintf("%+v", struct{ Count, Lock any }{d.Count, d.Lock})
}
