package engine

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
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

// The caller's registry encodes every value of a filter, of an update and of array filters, whatever
// holds it.
func TestRegistryEncodes(t *testing.T) {
	t.Parallel()
	type byPrice struct{ Price francs }
	type fields struct {
		Price francs
		Note  string `bson:",omitempty"`
	}
	type whole struct {
		Set fields           `bson:"$set"`
		Inc map[string]int32 `bson:"$inc,omitempty"`
	}
	e := emptyWorld(t, swiss()).peer(relations.Exclusive()).Engine
	for n, filters := range map[int][]any{
		1: {
			bson.D{{Key: "price", Value: francs(12)}}, bson.M{"price": francs(12)}, map[string]francs{"price": 12}, byPrice{12}, &byPrice{12},
			bson.D{{Key: "_id", Value: francs(12)}},
		},
		2: {bson.M{"price": bson.M{"$in": []francs{11, 12}}}},
	} {
		for _, filter := range filters {
			if f, err := e.ParseFilter(filter); err != nil || bytes.Count(f.doc, []byte("CHF ")) != n {
				t.Errorf("%#v: %v, %v", filter, f, err)
			}
		}
	}
	if f, err := e.ParseFilter(bson.D{{Key: "_id", Value: francs(12)}}); err != nil || f.Pin.ID().StringValue() != "CHF 12" {
		t.Errorf("the pin is %v, %v", f.Pin, err)
	}
	for n, updates := range map[int][]any{
		1: {
			bson.D{{Key: "$set", Value: bson.D{{Key: "price", Value: francs(12)}}}}, &bson.D{{Key: "$set", Value: bson.D{{Key: "price", Value: francs(12)}}}},
			bson.M{"$set": bson.M{"price": francs(12)}}, map[string]map[string]francs{"$set": {"price": 12}},
			bson.M{"$set": fields{Price: 12}}, bson.M{"$set": &fields{Price: 12}},
			whole{Set: fields{Price: 12}}, &whole{Set: fields{Price: 12}, Inc: map[string]int32{"n": 1}},
			bson.A{bson.M{"$set": bson.M{"price": francs(12)}}}, []bson.D{{{Key: "$set", Value: bson.D{{Key: "price", Value: francs(12)}}}}}, []any{whole{Set: fields{Price: 12}}},
		},
		4: {
			bson.M{"$push": bson.M{"prices": francs(3)}, "$pull": bson.M{"old": francs(3)}, numbering: bson.M{"high": francs(4)}, "$set": fields{Price: 12}},
			struct {
				Push struct{ Prices francs } `bson:"$push"`
				Pull struct{ Old francs }    `bson:"$pull"`
				Max  *struct{ High francs }  `bson:"$max"`
				Set  fields                  `bson:"$set"`
			}{struct{ Prices francs }{3}, struct{ Old francs }{3}, &struct{ High francs }{4}, fields{Price: 12}},
		},
	} {
		for _, update := range updates {
			if u, err := e.ParseUpdate(update); err != nil || bytes.Count(callers(u), []byte("CHF ")) != n {
				t.Errorf("%#v: %v, %v", update, u, err)
			}
		}
	}
	u, err := e.ParseUpdate(bson.M{"$set": bson.M{"items.$[i].x": 1}}, options.UpdateOne().SetArrayFilters([]any{bson.M{"i.price": francs(2)}}))
	if err != nil || u.filters[0].Lookup("i.price").StringValue() != "CHF 2" {
		t.Errorf("the array filters are %v, %v", u, err)
	}
}

// callers is the caller's part of an update.
func callers(u *Update) []byte {
	if u.stages == nil {
		return u.classic()
	}
	return slices.Concat(u.stages...)
}

// The library's own parts of every command survive any registry. Parsed values are bytes: a command
// runs none of the caller's codecs, not even those for the types of the command itself.
func TestCommandsRunNoneOfTheCallersCodecs(t *testing.T) {
	t.Parallel()
	var parsing atomic.Bool
	registry, plain := bson.NewRegistry(), bson.NewRegistry()
	for _, of := range []reflect.Type{reflect.TypeFor[bson.D](), reflect.TypeFor[bson.A](), reflect.TypeFor[bson.Raw](), reflect.TypeFor[bson.RawValue]()} {
		encoder, err := plain.LookupEncoder(of)
		if err != nil {
			t.Fatal(err)
		}
		registry.RegisterTypeEncoder(of, bson.ValueEncoderFunc(func(c bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
			if !parsing.Load() {
				t.Errorf("a command encodes a %v by the caller's registry", of)
			}
			return encoder.EncodeValue(c, w, v)
		}))
	}
	mangle := bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
		return w.WriteString("mangled " + v.Kind().String())
	})
	for _, kind := range []reflect.Kind{reflect.String, reflect.Int, reflect.Int32, reflect.Int64, reflect.Bool, reflect.Float64} {
		registry.RegisterKindEncoder(kind, mangle)
	}
	for _, of := range []reflect.Type{reflect.TypeFor[bson.Binary](), reflect.TypeFor[time.Time](), reflect.TypeFor[bson.DateTime](), reflect.TypeFor[uuid.UUID]()} {
		registry.RegisterTypeEncoder(of, mangle)
	}
	w := emptyWorld(t, options.Collection().SetRegistry(registry))
	w.Insert(hello())
	p := w.peer(relations.Fair())
	parsing.Store(true)
	filter, err := p.ParseFilter(rawOf(bson.D{hello()}))
	if err != nil {
		t.Fatal(err)
	}
	classic, pipeline := p.parsed(bson.M{"$set": bson.M{"x": "x"}}), p.parsed(bson.A{bson.M{"$set": bson.M{"x": 1}}})
	parsing.Store(false)
	for u, stores := range map[*Update]string{classic: "mangled string", pipeline: "mangled int"} {
		got, err := p.Engine.Acquire(t.Context(), filter, Request{Tag: "read", ID: ann, Document: true})
		if got.Outcome != Granted || err != nil {
			t.Fatal(got.Outcome, err)
		}
		g := p.Grant(got.Image, Request{Tag: "read", ID: ann})
		got, err = p.Engine.Acquire(t.Context(), filter.At(g.Pin), Request{Tag: "write", ID: bob})
		if got.Outcome != Waiting || err != nil {
			t.Fatal(got.Outcome, err)
		}
		p.confirm(Grant{Pin: g.Pin, Entry: Entry{Tag: "write", ID: bob}}, Waiting)
		p.renew(g, Renewed)
		if got, err := p.Write(t.Context(), g, u, 1); got.Outcome != Applied || err != nil {
			t.Fatal(got.Outcome, err)
		}
		w.fieldIs("x", stores)
		w.is(stored{fence: g.Fence + 1, tags: rows{
			"read":  {{id: ann, seq: g.Fence, fence: g.Fence, expires: held, n: 1}},
			"write": {{id: bob, seq: g.Fence + 1, expires: waits}},
		}})
		parsing.Store(true) // the driver encodes the caller's own filter
		if n, err := w.lab.CountDocuments(t.Context(), p.Guard(g)); n != 1 || err != nil {
			t.Errorf("the guard matches %d documents, %v", n, err)
		}
		parsing.Store(false)
		if got, err := p.WriteAndRelease(t.Context(), g, u); got.Outcome != Applied || err != nil {
			t.Fatal(got.Outcome, err)
		}
		p.release(p.confirm(Grant{Pin: g.Pin, Entry: Entry{Tag: "write", ID: bob}}, Granted), Released)
		w.Change(bson.M{"$unset": bson.M{"lock": 1}})
	}
}
