package engine

import (
	"testing"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// shop is a document as a user has it.
type shop struct {
	ID    int32 `bson:"_id"`
	Price francs
	Tools []string
	Lock  bson.M `bson:"lock"`
}

var garden = bson.D{
	{Key: "price", Value: "CHF 12"},
	{Key: "lock", Value: bson.D{{Key: "later", Value: "kept"}}},
	{Key: "tools", Value: bson.A{"spade", "rake"}},
	{Key: "nested", Value: bson.D{{Key: "lock", Value: 1}}},
}

// A grant's document is decoded without its lock, into anything that the driver decodes
// into. Only the caller's registry can decode the struct's price.
func TestDecodeInto(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, swiss())
	w.Insert(garden...)
	p := w.peer(relations.Exclusive())
	img := p.arrive(Request{Tag: "write", ID: ann, Document: true}, Granted)
	want := bson.D{{Key: "_id", Value: int32(1)}, garden[0], garden[2], {Key: "nested", Value: bson.D{{Key: "lock", Value: int32(1)}}}}
	raw, asStruct := rawOf(want), &shop{ID: 1, Price: 12, Tools: []string{"spade", "rake"}}
	var pointed *shop
	for name, c := range map[string]struct{ into, want any }{
		"D":       {&bson.D{}, &want},
		"M":       {&bson.M{}, &bson.M{"_id": int32(1), "price": "CHF 12", "tools": bson.A{"spade", "rake"}, "nested": bson.D{{Key: "lock", Value: int32(1)}}}},
		"struct":  {&shop{}, asStruct},
		"pointer": {&pointed, &asStruct},
		"Raw":     {&bson.Raw{}, &raw},
	} {
		if err := p.Decode(img, c.into); err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(c.want, c.into); diff != "" {
			t.Errorf("%s, as of the grant (-want +got):\n%s", name, diff)
		}
	}
	if err := p.Decode(img, &struct{ Price int }{}); err == nil {
		t.Error("a text is a number")
	}
}

func TestDecodeWithoutADocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	for name, img := range map[string]*Image{
		"not asked for": p.arrive(Request{Tag: "read", ID: ann}, Granted),
		"waiting":       p.arrive(Request{Tag: "write", ID: bob, Document: true}, Waiting),
		"refused":       p.arrive(Request{Tag: "read", ID: cid, Document: true, Try: true}, Conflict),
	} {
		var got bson.M
		if err := p.Decode(img, &got); err == nil {
			t.Errorf("%s: decoded %v", name, got)
		}
	}
}

// The lock may be the document's first field, its only one, or missing.
func TestDecodeLeavesTheLockOut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ doc, want bson.D }{
		"first": {bson.D{{Key: "lock", Value: bson.D{}}, {Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: int32(1)}}},
		"only":  {bson.D{{Key: "lock", Value: nil}}, bson.D{}},
		"none":  {bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: int32(1)}}},
		"twice": {bson.D{{Key: "lock", Value: nil}, {Key: "a", Value: 1}, {Key: "lock", Value: nil}}, bson.D{{Key: "a", Value: int32(1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := offline(t, relations.Exclusive())
			img, err := e.readImage(rawOf(bson.D{{Key: docKey, Value: test.doc}}), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got bson.D
			if err := e.Decode(img, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
