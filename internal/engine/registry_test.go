package engine

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// francs are stored as a string, "CHF 12", by the caller's registry only.
type francs int64

func encodeFrancs(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
	return w.WriteString(fmt.Sprintf("CHF %d", v.Int()))
}

func decodeFrancs(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
	text, err := r.ReadString()
	if err != nil {
		return err
	}
	var n int64
	if _, err := fmt.Sscanf(text, "CHF %d", &n); err != nil {
		return err
	}
	v.SetInt(n)
	return nil
}

func swiss() *options.CollectionOptionsBuilder {
	r := bson.NewRegistry()
	r.RegisterTypeEncoder(reflect.TypeFor[francs](), bson.ValueEncoderFunc(encodeFrancs))
	r.RegisterTypeDecoder(reflect.TypeFor[francs](), bson.ValueDecoderFunc(decodeFrancs))
	return options.Collection().SetRegistry(r)
}

// mangling turns every string, number, binary and time of a command into a
// string, and so shows what was encoded by the caller's registry.
func mangling() *options.CollectionOptionsBuilder {
	r := bson.NewRegistry()
	mangle := bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
		return w.WriteString("mangled " + v.Kind().String())
	})
	for _, kind := range []reflect.Kind{reflect.String, reflect.Int, reflect.Int32, reflect.Int64, reflect.Bool, reflect.Float64} {
		r.RegisterKindEncoder(kind, mangle)
	}
	for _, t := range []reflect.Type{reflect.TypeFor[bson.Binary](), reflect.TypeFor[time.Time](), reflect.TypeFor[bson.DateTime](), reflect.TypeFor[uuid.UUID]()} {
		r.RegisterTypeEncoder(t, mangle)
	}
	return options.Collection().SetRegistry(r)
}

func TestRegistryEncodesFilters(t *testing.T) {
	t.Parallel()
	type byID struct {
		ID francs `bson:"_id"`
	}
	type byPrice struct{ Price francs }
	for name, filter := range map[string]any{
		"D":                 bson.D{{Key: "price", Value: francs(12)}},
		"M":                 bson.M{"price": francs(12)},
		"map":               map[string]francs{"price": 12},
		"struct":            byPrice{12},
		"pointer to struct": &byPrice{12},
		"operators":         bson.M{"price": bson.M{"$in": []francs{11, 12}}},
		"D of the _id":      bson.D{{Key: "_id", Value: francs(1)}},
		"struct of the _id": byID{1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := emptyWorld(t, swiss())
			w.Insert(bson.E{Key: "_id", Value: "CHF 1"}, bson.E{Key: "price", Value: "CHF 12"})
			p := w.peer(relations.Exclusive())
			f, err := p.ParseFilter(filter)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Engine.Acquire(t.Context(), f, Request{Tag: "write", ID: ann})
			if got.Outcome != Granted || err != nil {
				t.Fatal(got.Outcome, err)
			}
			got, err = p.Engine.Acquire(t.Context(), f.At(p.Pin(got.Image)), Request{Tag: "write", ID: bob})
			if got.Outcome != Conflict || err != nil {
				t.Fatal("narrowed:", got.Outcome, err)
			}
			if pinned := strings.HasSuffix(name, "of the _id"); (f.Pin != nil) != pinned {
				t.Fatalf("the pin is %v", f.Pin)
			} else if pinned { // as the clean-up after an unknown outcome does
				p.release(Grant{Pin: f.Pin, Tag: "write", ID: ann, Fence: n0}, Released)
			}
		})
	}
}

func TestRegistryEncodesUpdates(t *testing.T) {
	t.Parallel()
	type fields struct {
		Price francs
		Note  string `bson:",omitempty"`
	}
	type whole struct {
		Set fields           `bson:"$set"`
		Inc map[string]int32 `bson:"$inc,omitempty"`
	}
	for name, update := range map[string]any{
		"D of D":              bson.D{{Key: "$set", Value: bson.D{{Key: "price", Value: francs(12)}}}},
		"M of M":              bson.M{"$set": bson.M{"price": francs(12)}},
		"pointer to D":        &bson.D{{Key: "$set", Value: bson.D{{Key: "price", Value: francs(12)}}}},
		"map of map":          map[string]map[string]francs{"$set": {"price": 12}},
		"struct under $set":   bson.M{"$set": fields{Price: 12}},
		"pointer under $set":  bson.M{"$set": &fields{Price: 12}},
		"whole struct":        whole{Set: fields{Price: 12}},
		"pointer to struct":   &whole{Set: fields{Price: 12}, Inc: map[string]int32{"n": 1}},
		"library's operators": bson.M{"$push": bson.M{"prices": francs(3)}, "$pull": bson.M{"old": francs(3)}, numbering: bson.M{"high": francs(4)}, "$set": fields{Price: 12}},
		"library's in structs": struct {
			Push struct{ Prices francs } `bson:"$push"`
			Pull struct{ Old francs }    `bson:"$pull"`
			Max  *struct{ High francs }  `bson:"$max"`
			Set  fields                  `bson:"$set"`
		}{struct{ Prices francs }{3}, struct{ Old francs }{3}, &struct{ High francs }{4}, fields{Price: 12}},
		"pipeline A":    bson.A{bson.M{"$set": bson.M{"price": francs(12)}}},
		"pipeline of D": []bson.D{{{Key: "$set", Value: bson.D{{Key: "price", Value: francs(12)}}}}},
		"pipeline of structs": []any{struct {
			Set fields `bson:"$set"`
		}{fields{Price: 12}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := emptyWorld(t, swiss())
			w.Insert(hello())
			p := w.peer(relations.Exclusive())
			g := p.acquire(ann, "write", Granted)
			p.write(g, update, 1, Applied)
			w.fieldIs("price", "CHF 12")
			w.Change(bson.M{"$unset": bson.M{"price": 1}})
			p.finish(g, update, Applied)
			w.fieldIs("price", "CHF 12")
			w.fieldIs("text", "hello")
			w.is(stored{fence: n0, tags: rows{"write": {}}, done: []uuid.UUID{ann}})
			if strings.HasPrefix(name, "library's") {
				w.fieldIs("prices", bson.A{"CHF 3", "CHF 3"})
				w.fieldIs("high", "CHF 4")
			}
		})
	}
}

func TestRegistryEncodesArrayFilters(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, swiss())
	w.Insert(bson.E{Key: "items", Value: bson.A{bson.M{"price": "CHF 1"}, bson.M{"price": "CHF 2"}}})
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	u, err := p.ParseUpdate(bson.M{"$set": bson.M{"items.$[i].price": francs(9)}},
		options.UpdateOne().SetArrayFilters([]any{bson.M{"i.price": francs(2)}}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Write(t.Context(), g, u, 1); got.Outcome != Applied || err != nil {
		t.Fatal(got.Outcome, err)
	}
	w.fieldIs("items", bson.A{bson.M{"price": "CHF 1"}, bson.M{"price": "CHF 9"}})
}

// The library's own parts of every command survive any registry.
func TestRegistryCannotAlterTheLibrarysParts(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, mangling())
	w.Insert(bson.E{Key: "count", Value: int32(0)})
	p := w.peer(relations.Fair())
	filter, err := bson.Marshal(bson.M{"_id": int32(1)})
	if err != nil {
		t.Fatal(err)
	}
	acquire := func(id uuid.UUID, tag string, want Outcome) Grant {
		f, err := p.ParseFilter(filter)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Engine.Acquire(t.Context(), f, Request{Tag: tag, ID: id, Document: true})
		if got.Outcome != want || err != nil {
			t.Fatal(got.Outcome, err)
		}
		return p.Grant(got.Image, Request{Tag: tag, ID: id})
	}
	g := acquire(ann, "read", Granted)
	b := acquire(bob, "write", Waiting)
	p.confirm(b, Waiting)
	p.renew(g, Renewed)
	p.write(g, bson.M{"$set": bson.M{"text": "hello"}}, 1, Applied)
	w.fieldIs("text", "mangled string")
	p.write(g, bson.A{bson.M{"$set": bson.M{"text": 5}}}, 2, Applied)
	w.fieldIs("text", "mangled int")
	w.is(stored{fence: n0 + 1, tags: rows{
		"read":  {{id: ann, seq: n0, fence: n0, expires: held, n: 2}},
		"write": {{id: bob, seq: n0 + 1, expires: waits}},
	}})
	p.read(g)
	p.finish(g, bson.M{"$set": bson.M{"text": "hello"}}, Applied)
	b = p.confirm(b, Granted)
	p.finish(b, bson.A{bson.M{"$set": bson.M{"text": true}}}, Applied)
	w.is(stored{fence: n0 + 2, tags: rows{"write": {}}, done: []uuid.UUID{ann, bob}})
	g = acquire(cid, "read", Granted)
	if n, err := w.lab.CountDocuments(t.Context(), p.Guard(g)); n != 1 || err != nil {
		t.Errorf("the guard matches %d documents, %v", n, err)
	}
	p.release(g, Released)
}

// Parsed values are bytes: a command runs none of the caller's codecs, not even
// those for the types of the command itself.
func TestCommandsRunNoneOfTheCallersCodecs(t *testing.T) {
	t.Parallel()
	var parsed atomic.Bool
	registry := bson.NewRegistry()
	plain := bson.NewRegistry()
	for _, of := range []reflect.Type{reflect.TypeFor[bson.D](), reflect.TypeFor[bson.A](), reflect.TypeFor[bson.Raw](), reflect.TypeFor[bson.RawValue](), reflect.TypeFor[raw]()} {
		encoder, err := plain.LookupEncoder(of)
		if err != nil {
			t.Fatal(err)
		}
		registry.RegisterTypeEncoder(of, bson.ValueEncoderFunc(func(c bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
			if parsed.Load() {
				t.Errorf("a command encodes a %v by the caller's registry", of)
			}
			return encoder.EncodeValue(c, w, v)
		}))
	}
	w := emptyWorld(t, options.Collection().SetRegistry(registry))
	w.Insert(hello())
	p := w.peer(relations.Fair())
	filter, err := p.ParseFilter(bson.M{"text": "hello"})
	if err != nil {
		t.Fatal(err)
	}
	classic, pipeline := p.parsed(bson.M{"$set": bson.M{"x": 1}}), p.parsed(bson.A{bson.M{"$set": bson.M{"x": 1}}})
	parsed.Store(true)
	for _, u := range []*Update{classic, pipeline} {
		got, err := p.Engine.Acquire(t.Context(), filter, Request{Tag: "read", ID: ann, Document: true})
		if got.Outcome != Granted || err != nil {
			t.Fatal(got.Outcome, err)
		}
		g := p.Grant(got.Image, Request{Tag: "read", ID: ann})
		got, err = p.Engine.Acquire(t.Context(), filter.At(g.Pin), Request{Tag: "write", ID: bob})
		if got.Outcome != Waiting || err != nil {
			t.Fatal(got.Outcome, err)
		}
		p.confirm(Grant{Pin: g.Pin, Tag: "write", ID: bob}, Waiting)
		p.renew(g, Renewed)
		if got, err := p.Write(t.Context(), g, u, 1); got.Outcome != Applied || err != nil {
			t.Fatal(got.Outcome, err)
		}
		if got, err := p.WriteAndRelease(t.Context(), g, u); got.Outcome != Applied || err != nil {
			t.Fatal(got.Outcome, err)
		}
		p.release(p.confirm(Grant{Pin: g.Pin, Tag: "write", ID: bob}, Granted), Released)
	}
}
