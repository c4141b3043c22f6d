package routertest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/internal/routertest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// behind is a collection {_id: 1, region: "north", at: {zone: 7}} behind a
// router, sharded by these fields.
func behind(t *testing.T, key ...string) (*routertest.Router, *mongo.Collection) {
	t.Helper()
	router := routertest.Start(t, mongotest.URI(t))
	coll := mongotest.DatabaseOn(t, connect(t, router)).Collection("things")
	if _, err := coll.InsertOne(t.Context(), bson.M{"_id": 1, "region": "north", "at": bson.M{"zone": 7}}); err != nil {
		t.Fatal(err)
	}
	router.Shard(coll.Database().Name()+"."+coll.Name(), key...)
	return router, coll
}

func connect(t *testing.T, routers ...*routertest.Router) *mongo.Client {
	t.Helper()
	return mongotest.Client(t, options.Client().ApplyURI(routertest.URI(routers...)))
}

func TestTheShardKeyIsDemanded(t *testing.T) {
	set := bson.M{"$inc": bson.M{"n": 1}}
	for _, c := range []struct {
		name   string
		key    []string
		filter any
		single bool // of an update or a delete of one document
		modify bool // of a findAndModify
	}{
		{"by _id", []string{"region"}, bson.M{"_id": 1}, true, false},
		{"by the key", []string{"region"}, bson.M{"region": "north"}, true, true},
		{"by both", []string{"region"}, bson.D{{Key: "_id", Value: 1}, {Key: "region", Value: "north"}}, true, true},
		{"by another field", []string{"region"}, bson.M{"at.zone": 7}, false, false},
		{"in an $and", []string{"region"}, bson.M{"$and": bson.A{bson.M{"_id": 1}, bson.M{"region": bson.M{"$eq": "north"}}}}, true, true},
		{"in an $or", []string{"region"}, bson.M{"$or": bson.A{bson.M{"region": "north"}}}, false, false},
		{"by a range", []string{"region"}, bson.M{"region": bson.M{"$gte": "north"}}, false, false},
		{"by a pattern", []string{"region"}, bson.M{"region": bson.Regex{Pattern: "north"}}, false, false},
		{"by half of the key", []string{"region", "at.zone"}, bson.M{"region": "north"}, false, false},
		{"by a path", []string{"region", "at.zone"}, bson.M{"region": "north", "at.zone": 7}, true, true},
		{"by a document", []string{"at.zone"}, bson.M{"at": bson.M{"zone": 7}}, true, true},
		{"not sharded", nil, bson.M{"at.zone": 7}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			router, coll := behind(t, c.key...)
			for what, try := range map[string]struct {
				do   func() error
				fine bool
			}{
				"findAndModify": {func() error { return coll.FindOneAndUpdate(t.Context(), c.filter, set).Err() }, c.modify},
				"update":        {func() error { _, err := coll.UpdateOne(t.Context(), c.filter, set); return err }, c.single},
				"many":          {func() error { _, err := coll.UpdateMany(t.Context(), c.filter, set); return err }, true},
				"upsert": {func() error {
					_, err := coll.UpdateOne(t.Context(), c.filter, set, options.UpdateOne().SetUpsert(true))
					return err
				}, c.modify},
				"bulk": {func() error {
					_, err := coll.BulkWrite(t.Context(), []mongo.WriteModel{mongo.NewUpdateOneModel().SetFilter(c.filter).SetUpdate(set)})
					return err
				}, c.single},
			} {
				before := router.Refused()
				err := try.do()
				var server mongo.ServerError
				switch {
				case try.fine && (err != nil || router.Refused() != before):
					t.Errorf("%s: %v", what, err)
				case !try.fine && (!errors.As(err, &server) || !server.HasErrorCode(61) || router.Refused() != before+1):
					t.Errorf("%s, which lacks the key: %v", what, err)
				}
			}
			_, err := coll.DeleteOne(t.Context(), c.filter)
			if (err == nil) != c.single {
				t.Errorf("delete: %v", err)
			}
		})
	}
}

// Each router uses its own clock for $$NOW, everywhere in a command.
func TestRoutersStampWithTheirOwnClocks(t *testing.T) {
	slow, coll := behind(t)
	fast := routertest.Start(t, mongotest.URI(t))
	slow.Skew(-time.Hour)
	fast.Skew(time.Hour)
	other := connect(t, fast).Database(coll.Database().Name()).Collection(coll.Name())
	for want, coll := range map[time.Duration]*mongo.Collection{-time.Hour: coll, time.Hour: other} {
		var doc struct{ Now, Written time.Time }
		opts := options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(bson.M{"now": "$$NOW", "written": 1})
		if err := coll.FindOneAndUpdate(t.Context(), bson.M{"_id": 1}, bson.A{bson.M{"$set": bson.M{"written": "$$NOW"}}}, opts).Decode(&doc); err != nil {
			t.Fatal(err)
		}
		if wrong := time.Until(doc.Now) - want; doc.Now != doc.Written || wrong.Abs() > time.Minute {
			t.Errorf("a router whose clock is %v off stamps %v", want, doc.Now)
		}
		if _, err := coll.BulkWrite(t.Context(), []mongo.WriteModel{mongo.NewUpdateOneModel().SetFilter(bson.M{"_id": 1}).
			SetUpdate(bson.A{bson.M{"$set": bson.M{"written": "$$NOW"}}})}); err != nil {
			t.Fatal(err)
		}
		if err := coll.FindOne(t.Context(), bson.M{"_id": 1}, options.FindOne().SetProjection(bson.M{"now": "$$NOW", "written": 1})).Decode(&doc); err != nil {
			t.Fatal(err)
		}
		if wrong := time.Until(doc.Written) - want; doc.Now.Before(doc.Written) || wrong.Abs() > time.Minute {
			t.Errorf("a router whose clock is %v off stamps %v in a batch", want, doc.Written)
		}
	}
}

// The driver treats it as a router: it sees several of them as one cluster, and
// sends to any of them.
func TestTheDriverSeesACluster(t *testing.T) {
	one, two := routertest.Start(t, mongotest.URI(t)), routertest.Start(t, mongotest.URI(t))
	client := mongotest.Client(t, options.Client().ApplyURI(routertest.URI(one, two)).SetLocalThreshold(10*time.Second))
	seen := map[bson.ObjectID]int{}
	fixture.Eventually(t, "both routers are asked", func() bool { // a busy machine finds one of them late
		var hello struct {
			Msg, SetName    string
			TopologyVersion struct{ ProcessID bson.ObjectID }
		}
		if err := client.Database("any").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
			t.Fatal(err)
		}
		if hello.Msg != "isdbgrid" || hello.SetName != "" {
			t.Errorf("it is %+v", hello)
		}
		seen[hello.TopologyVersion.ProcessID]++
		return len(seen) == 2
	})
}

// An error of the shard is passed on without its labels.
func TestErrorsArePassedOn(t *testing.T) {
	_, coll := behind(t, "region")
	err := coll.FindOneAndUpdate(t.Context(), bson.M{"region": "north"}, bson.M{"$inc": bson.M{"region": 1}}).Err()
	var server mongo.CommandError
	if !errors.As(err, &server) || server.Code == 61 || len(server.Labels) > 0 || !strings.Contains(err.Error(), "region") {
		t.Errorf("%v", err)
	}
}

// A connection's pending work is cut off when the router ends with its test.
func TestARouterEndsWithItsTest(t *testing.T) {
	var client *mongo.Client
	t.Run("router", func(inner *testing.T) {
		router := routertest.Start(inner, mongotest.URI(inner))
		client = mongotest.Client(t, options.Client().ApplyURI(router.URI()).SetServerSelectionTimeout(5*time.Second))
		if err := client.Database("any").RunCommand(t.Context(), bson.D{{Key: "ping", Value: 1}}).Err(); err != nil {
			t.Error(err)
		}
	})
	if err := client.Ping(t.Context(), nil); err == nil || errors.Is(err, mongo.ErrClientDisconnected) {
		t.Error("a router answers after its test")
	}
}
