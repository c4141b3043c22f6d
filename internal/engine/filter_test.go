package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestFilterPins(t *testing.T) {
	t.Parallel()
	type withID struct {
		ID any `bson:"_id"`
		X  int
	}
	m := bson.M{"_id": 1}
	for pinned, filters := range map[bool][]any{
		true: {
			bson.D{{Key: "x", Value: 2}, {Key: "_id", Value: 1}}, m, &m, map[string]int{"_id": 1}, rawOf(m), []byte(rawOf(m)), withID{1, 2}, &withID{1, 2},
			struct {
				Inner withID `bson:",inline"`
			}{withID{1, 2}},
			marshaler{m}, valueMarshaler{m},
		},
		false: {
			bson.M{"x": 1}, bson.M{"_id": bson.M{"$in": bson.A{1}}}, bson.D{{Key: "_id", Value: bson.D{{Key: "$eq", Value: 1}}}}, rawOf(bson.M{"_id": bson.M{"$gt": 0}}),
			withID{ID: bson.M{"$gt": 0}}, bson.M{"_id": bson.Regex{Pattern: "^1"}}, bson.M{"$and": bson.A{m}}, bson.M{"_id.a": 1},
		},
	} {
		for _, filter := range filters {
			f, err := plain.ParseFilter(filter)
			if err != nil || (f.Pin != nil) != pinned || pinned && (f.Pin.ID().AsInt64() != 1 || len(f.Pin) != 1) {
				t.Errorf("%#v: the pin is %v, %v", filter, f.Pin, err)
			}
		}
	}
}

func TestAnyFilterMayBeEmpty(t *testing.T) {
	t.Parallel()
	for _, filter := range []any{bson.D{}, bson.M{}, struct{}{}} {
		if f, err := plain.ParseAny(filter); err != nil || f.Pin != nil || f.Exact {
			t.Errorf("%#v: %v, %v", filter, f, err)
		}
	}
	if f, err := plain.ParseAny(nil); err == nil {
		t.Errorf("nil: %v", f)
	}
}

func TestFilterRefused(t *testing.T) {
	t.Parallel()
	for want, filters := range map[string][]any{
		"nil is not a document":            {nil},
		"doclock.ID(…) names a document":   {"A-17", bson.NewObjectID(), nil},
		"an empty filter would lock any":   {bson.D{}, bson.M{}, struct{}{}, rawOf(bson.D{}), (bson.M)(nil), (bson.D)(nil)},
		"is not a document; give a bson.D": {7, "x", make(chan int), bson.A{}, (*bson.M)(nil), valueMarshaler{7}, bson.RawValue{Type: bson.TypeInt32, Value: []byte{1, 0, 0, 0}}},
		"not enough bytes":                 {bson.Raw{5, 0}, []byte{1}},
		`it has "_id" twice`: {
			bson.D{{Key: "_id", Value: 1}, {Key: "_id", Value: 1}},
			rawOf(bson.D{{Key: "_id", Value: bson.M{"$ne": 2}}, {Key: "x", Value: 1}, {Key: "_id", Value: 1}}),
		},
		"no encoder found for chan int": {marshaler{make(chan int)}, valueMarshaler{make(chan int)}, struct{ X chan int }{make(chan int)}, bson.M{"_id": make(chan int)}},
	} {
		for _, filter := range filters {
			if f, err := plain.ParseFilter(filter); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%#v: %v, %v\nwant %q", filter, f, err, want)
			}
		}
	}
}

// A filter that pins its document needs no narrowing. Any other one keeps its
// demands.
func TestFilterAt(t *testing.T) {
	t.Parallel()
	pin := Pin{{Key: "_id", Value: 9}}
	f, err := plain.ParseFilter(bson.M{"x": 1})
	if err != nil {
		t.Fatal(err)
	}
	at := f.At(pin)
	want := rawOf(bson.D{{Key: "$and", Value: bson.A{bson.M{"x": 1}, bson.D(pin)}}})
	if diff := cmp.Diff(want, at.doc); diff != "" || at.Pin == nil {
		t.Errorf("%v (-want +got):\n%s", at.Pin, diff)
	}
	if again := at.At(Pin{{Key: "_id", Value: 8}}); cmp.Diff(at.doc, again.doc) != "" {
		t.Errorf("narrowed twice: %v", again.doc)
	}
}

// In a sharded collection the pin is the _id and the shard key: two shards may
// each have a document with the same _id.
func TestThePinHasTheShardKey(t *testing.T) {
	t.Parallel()
	e := &Engine{encoder: plain.encoder, Config: Config{ShardKey: []string{"region", "at.zone"}}}
	twice := bson.D{{Key: "_id", Value: 1}, {Key: "at.zone", Value: 1}, {Key: "at.zone", Value: 2}}
	if f, err := e.ParseFilter(twice); err == nil {
		t.Errorf("%v: the pin is %v", twice, f.Pin)
	}
	for name, c := range map[string]struct {
		filter        any
		pinned, exact bool
	}{
		"all":              {bson.D{{Key: "_id", Value: 1}, {Key: "region", Value: "north"}, {Key: "at.zone", Value: 7}}, true, true},
		"in another order": {bson.D{{Key: "at.zone", Value: 7}, {Key: "region", Value: "north"}, {Key: "_id", Value: 1}}, true, true},
		"and more":         {bson.D{{Key: "_id", Value: 1}, {Key: "region", Value: "north"}, {Key: "at.zone", Value: 7}, {Key: "x", Value: 1}}, true, false},
		"the _id alone":    {bson.D{{Key: "_id", Value: 1}}, false, false},
		"half of the key":  {bson.D{{Key: "_id", Value: 1}, {Key: "region", Value: "north"}}, false, false},
		"a range":          {bson.D{{Key: "_id", Value: 1}, {Key: "region", Value: bson.D{{Key: "$gt", Value: "n"}}}, {Key: "at.zone", Value: 7}}, false, false},
		"no _id":           {bson.D{{Key: "region", Value: "north"}, {Key: "at.zone", Value: 7}}, false, false},
	} {
		f, err := e.ParseFilter(c.filter)
		if err != nil || (f.Pin != nil) != c.pinned || f.Exact != c.exact {
			t.Errorf("%s: pin %v, exact %v, %v", name, f.Pin, f.Exact, err)
			continue
		}
		for i, key := range []string{"_id", "region", "at.zone"} {
			if c.pinned && (len(f.Pin) != 3 || f.Pin[i].Key != key) {
				t.Errorf("%s: the pin is %v", name, f.Pin)
			}
		}
	}
}

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
