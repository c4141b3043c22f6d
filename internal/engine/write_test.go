package engine

import (
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The same change, as a classic update and as a pipeline. Each test below runs
// with both.
var increments = map[string]any{
	"classic":  bson.M{"$inc": bson.M{"count": 1}},
	"pipeline": bson.A{bson.M{"$set": bson.M{"count": bson.M{"$add": bson.A{bson.M{"$ifNull": bson.A{"$count", 0}}, 1}}}}},
}

// bothWays runs body with each form of the increment, in a world of its own.
func bothWays(t *testing.T, body func(w *world, increment any)) {
	t.Helper()
	for form, increment := range increments {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			body(newWorld(t, hello()), increment)
		})
	}
}

// counts checks the number of increments so far.
func (w *world) counts(want int32) {
	w.Helper()
	if got, _ := w.decoded()["count"].(int32); got != want {
		w.Fatalf("count is %d, want %d", got, want)
	}
}

func TestWriteWithArrayFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bson.E{Key: "items", Value: bson.A{bson.M{"n": 1}, bson.M{"n": 5}}})
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	u, err := p.ParseUpdate(bson.M{"$inc": bson.M{"items.$[big].n": 1}, "$push": bson.M{"log": "x"}, "$pull": bson.M{"none": 1}},
		options.UpdateOne().SetArrayFilters([]any{bson.M{"big.n": bson.M{"$gt": 3}}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Write(t.Context(), g, u, 1); got.Outcome != Applied || err != nil {
		t.Fatal(got.Outcome, err)
	}
	s := Successor{Request: Request{ID: bob, Tag: "write"}}
	if can, _ := p.Piggybacks(g, u, s); !can {
		t.Fatal("the update can't be piggybacked")
	}
	got, err := p.WriteAndHandOff(t.Context(), g, u, s)
	if got.Outcome != Granted || err != nil {
		t.Fatal(got.Outcome, err)
	}
	if got, err := p.WriteAndRelease(t.Context(), p.Grant(got.Image, Request{Tag: "write", ID: bob}), u); got.Outcome != Applied || err != nil {
		t.Fatal(got.Outcome, err)
	}
	w.fieldIs("items", bson.A{bson.M{"n": int32(1)}, bson.M{"n": int32(8)}})
	w.fieldIs("log", bson.A{"x", "x", "x"})
	w.is(stored{fence: n0 + 1, tags: rows{"write": {}}, done: []uuid.UUID{ann, bob}})
}

// The caller may use operators that the library uses too.
func TestWriteWithTheLibrarysOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bson.E{Key: "high", Value: 1}, bson.E{Key: "list", Value: bson.A{"a", "b"}})
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	p.write(g, bson.D{{Key: numbering, Value: bson.M{"high": 9}}}, 1, Applied)
	p.write(g, bson.M{numbering: bson.D{{Key: "high", Value: 3}}}, 2, Applied)
	p.finish(g, bson.M{"$push": bson.M{"log": "x"}, "$pull": bson.D{{Key: "list", Value: "a"}}, numbering: bson.M{"high": 10}}, Applied)
	w.fieldIs("high", int32(10))
	w.fieldIs("log", bson.A{"x"})
	w.fieldIs("list", bson.A{"b"})
	w.is(stored{fence: n0, tags: rows{"write": {}}, done: []uuid.UUID{ann}})
}
