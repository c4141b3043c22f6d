package engine

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestShardKeyPinsTheDocument(t *testing.T) {
	t.Parallel()
	key := bson.D{{Key: "city", Value: "Bern"}, {Key: "at.zone.n", Value: 4}, {Key: "at.none", Value: nil}, {Key: "none", Value: nil}, {Key: "void", Value: nil}}
	w := shardedWorld(t, key, bson.E{Key: "city", Value: "Bern"}, bson.E{Key: "at", Value: bson.D{{Key: "zone", Value: bson.D{{Key: "n", Value: 4}}}}}, bson.E{Key: "void", Value: nil})
	p := w.peer(relations.Exclusive(), func(c *Config) { c.ShardKey = []string{"city", "at.zone.n", "at.none", "none", "void", "_id"} })
	img := p.arrive(Request{Tag: "write", ID: ann, Document: true}, Granted)
	pin := p.Pin(img)
	raw, err := bson.Marshal(bson.D(pin))
	if err != nil {
		t.Fatal(err)
	}
	want := bson.M{"_id": int32(1), "city": "Bern", "at.zone.n": int32(4), "at.none": nil, "none": nil, "void": nil}
	if diff := cmp.Diff(want, decodedM(t, raw)); diff != "" || len(pin) != len(want) {
		t.Errorf("the pin (-want +got):\n%s", diff)
	}
	g := p.Grant(img, Request{Tag: "write", ID: ann})
	p.renew(g, Renewed)
	p.confirm(g, Granted)
	p.write(g, bson.M{"$set": bson.M{"x": 1}}, 1, Applied)
	p.write(g, bson.A{bson.M{"$set": bson.M{"x": 1}}}, 2, Applied)
	p.read(g)
	p.renewAll(true, g)
	p.standing(map[uuid.UUID]time.Duration{ann: ttl}, g)

	// The command has every part of the pin, as a router demands it.
	for key := range want {
		if command := p.once("renew", func() { _, _ = p.Renew(t.Context(), g) }); command.Lookup("query", key).Type == 0 {
			t.Errorf("%s is not in the filter", key)
		}
	}
	w.Change(bson.M{"$set": bson.M{"city": "Basel"}})
	p.renewAll(false, g)
	p.standing(nil, g)
	p.proven("renew", func(ctx context.Context) (Answer, error) { return p.Renew(ctx, g) })
	w.Change(bson.M{"$set": bson.M{"city": "Bern", "none": 1}})
	p.proven("release", func(ctx context.Context) (Answer, error) { return p.Release(ctx, g) })
	w.Change(bson.M{"$unset": bson.M{"none": 1}})
	p.release(g, Released)

	var doc bson.M // decoding doesn't spoil the pin
	if err := p.Decode(img, &doc); err != nil || doc["city"] != "Bern" {
		t.Fatal(doc, err)
	}
	if diff := cmp.Diff(pin, p.Pin(img)); diff != "" {
		t.Errorf("the pin after Decode (-before +after):\n%s", diff)
	}
}

// A part of the _id is not named a second time: the server refuses a projection
// with both.
func TestShardKeyWithinTheID(t *testing.T) {
	t.Parallel()
	w := shardedWorld(t, nil, bson.E{Key: "_id", Value: bson.D{{Key: "region", Value: "north"}, {Key: "n", Value: 1}}})
	w.Shard(bson.M{"_id.region": 1})
	p := w.peer(relations.Exclusive(), func(c *Config) { c.ShardKey = []string{"_id.region"} })
	g := p.acquire(ann, "write", Granted)
	p.renew(g, Renewed)
	p.release(g, Released)
}

// A document whose shard key changes is out of its holder's reach.
func TestUpdatesOfTheShardKeyAreRefused(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Exclusive(), func(c *Config) { c.ShardKey = []string{"at.zone"} })
	for _, update := range []any{
		bson.M{"$set": bson.M{"at.zone": 8}},
		bson.M{"$set": bson.M{"at": bson.M{"zone": 8}}},
		bson.M{"$set": bson.M{"at.zone.x": 8}},
		bson.M{"$unset": bson.M{"at.zone": ""}},
		bson.M{"$rename": bson.M{"x": "at.zone"}},
		bson.M{"$rename": bson.M{"at": "y"}},
		bson.A{bson.M{"$set": bson.M{"at": bson.M{"zone": 8}}}},
		bson.A{bson.M{"$unset": "at.zone"}},
	} {
		if _, err := e.ParseUpdate(update); err == nil {
			t.Errorf("%v is taken", update)
		}
	}
	for _, update := range []any{
		bson.M{"$set": bson.M{"at.zones": 8, "attic": 1}},
		bson.A{bson.M{"$set": bson.M{"at.zones": 8}}},
	} {
		if _, err := e.ParseUpdate(update); err != nil {
			t.Errorf("%v: %v", update, err)
		}
	}
}
