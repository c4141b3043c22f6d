package engine

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// odd is a document that each BSON option encodes differently.
type odd struct {
	Long  int64
	Bytes []byte
	Map   map[string]int
	List  []int
	Zero  struct{ A int } `bson:",omitempty"`
	Empty string
	Keys  map[shout]int
	JSON  int    `json:"json_name"`
	Price francs `bson:"price"`
}

// twice has a field that its inline struct also has.
type twice struct {
	A     int
	Inner struct{ A int } `bson:",inline"`
}

// shout is a key whose text differs in fmt.
type shout string

func (s shout) String() string { return strings.ToUpper(string(s)) }

// Values are encoded as the driver does it, with the caller's registry and each
// of the BSON options.
func TestValuesAreEncodedAsTheDriverDoes(t *testing.T) {
	t.Parallel()
	all := map[string]*options.BSONOptions{"none": nil, "zero": {}}
	fields := reflect.TypeFor[options.BSONOptions]()
	for i := range fields.NumField() {
		o := &options.BSONOptions{}
		reflect.ValueOf(o).Elem().Field(i).SetBool(true)
		all[fields.Field(i).Name] = o
	}
	doc := odd{Keys: map[shout]int{"k": 1}, JSON: 2, Price: 12}
	for name, o := range all {
		t.Run(name, func(t *testing.T) {
			coll := swiss()
			if o != nil {
				coll.SetBSONOptions(o)
			}
			w := emptyWorld(t, coll)
			e := w.peer(relations.Exclusive()).Engine
			for form, v := range map[string]any{"struct": doc, "pointer": &doc, "D": bson.D{{Key: "doc", Value: doc}}, "map": map[shout]odd{"k": doc}, "Raw": rawOf(bson.M{"a": 1})} {
				sent := w.once(form, func() { w.lab.FindOne(t.Context(), v) })
				got, err := e.encoder.document(v)
				if want := sent.Lookup("filter").Document(); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %v, %v\nthe driver sends %v", form, got, err, want)
				}
				value, err := e.encoder.value(v)
				if err != nil || !bytes.Equal(value.Value, got) {
					t.Errorf("%s as a value: %v, %v", form, value, err)
				}
			}
			_, err := e.encoder.document(twice{})
			if refused := w.lab.FindOne(t.Context(), twice{}).Err(); (err == nil) != (o == nil || !o.ErrorOnInlineDuplicates) || err != nil && err.Error() != refused.Error() {
				t.Errorf("a field that is there twice: %v; by the driver: %v", err, refused)
			}
			tagged, err := e.encoder.document(struct {
				X int `json:"tagged"`
			}{}) // a new type each time, because the registry remembers the field names of a type
			if _, missing := tagged.LookupErr("tagged"); err != nil || (missing == nil) != (o != nil && o.UseJSONStructTags) {
				t.Errorf("JSON's tags: %v, %v", tagged, err)
			}
			fields := bson.D{
				{Key: "_id", Value: bson.ObjectID{1}}, {Key: "nested", Value: bson.M{"a": 1}}, {Key: "binary", Value: []byte{1}},
				{Key: "json_name", Value: 3}, {Key: "other", Value: bson.M{"b": 1}}, {Key: "time", Value: bson.DateTime(0)}, {Key: "price", Value: "CHF 12"}, {Key: "float", Value: 1.5},
			}
			w.Insert(fields...)
			type read struct {
				Nested, Time, Binary any
				JSON                 int `json:"json_name"`
				Price                francs
			}
			type kept struct {
				Nested map[string]int
				Inner  struct{ A int } `bson:"other"`
			}
			for form, target := range map[string]func() any{
				"values":  func() any { return &read{} },
				"map":     func() any { return &bson.M{"stays": true} },
				"struct":  func() any { return &kept{map[string]int{"stays": 1}, struct{ A int }{7}} },
				"times":   func() any { return &struct{ Time time.Time }{} },
				"numbers": func() any { return &struct{ Float int }{} },
				"texts": func() any {
					return &struct {
						ID string `bson:"_id"`
					}{}
				},
			} {
				got := target()
				want := reflect.New(reflect.TypeOf(got).Elem()).Interface() // what the target held is replaced
				decoded, expected := e.encoder.decode(rawOf(fields), got), w.lab.FindOne(t.Context(), bson.M{}).Decode(want)
				if (decoded == nil) != (expected == nil) || decoded != nil && decoded.Error() != expected.Error() {
					t.Errorf("%s: decoded: %v; by the driver: %v", form, decoded, expected)
				}
				if !reflect.DeepEqual(want, got) { // times with their zones
					t.Errorf("%s (-driver +ours):\n%s", form, cmp.Diff(want, got))
				}
			}
		})
	}
}

// lender encodes itself into memory that it reuses.
type lender struct{ doc bson.Raw }

func (l lender) MarshalBSONValue() (byte, []byte, error) {
	return byte(bson.TypeEmbeddedDocument), l.doc, nil
}

// Parsed values keep no memory of the caller's, nor the memory that they are
// encoded in.
func TestParsedValuesShareNothing(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Exclusive())
	filter, update, stage := rawOf(bson.M{"_id": "one"}), rawOf(bson.M{"$set": bson.M{"x": "one"}}), rawOf(bson.M{"$set": bson.M{"x": "one"}})
	nested, comment, collation := rawOf(bson.M{"x": "one"}), []byte("one"), &options.Collation{Locale: "one"}
	opts := options.UpdateOne().SetComment(comment).SetHint(nested).SetLet(nested).SetCollation(collation)
	f, err := e.ParseFilter(filter)
	var parsed []*Update
	for _, v := range []any{
		update, []byte(update), bson.M{"$set": nested}, lender{update}, bson.A{stage}, []bson.Raw{stage},
	} {
		u, failed := e.ParseUpdate(v, opts)
		parsed, err = append(parsed, u), errors.Join(err, failed)
	}
	withFilters, failed := e.ParseUpdate(update, options.UpdateOne().SetArrayFilters([]any{nested}))
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	for _, own := range [][]byte{filter, update, stage, nested, comment} {
		clear(own)
	}
	collation.Locale = ""
	one := func(raw bson.Raw) {
		t.Helper()
		if !bytes.Contains(raw, []byte("one")) {
			t.Errorf("%v is the caller's", raw)
		}
	}
	one(f.doc)
	one(rawOf(bson.D(f.Pin)))
	for _, u := range append(parsed, withFilters) {
		one(callers(u))
	}
	one(withFilters.filters[0])
	for _, u := range parsed {
		sent := append(assemble(0), u.options...).end()
		for _, option := range []string{"comment", "hint", "let", "collation"} {
			one(sent.Lookup(option).Value)
		}
	}
}

// A driver that keeps its settings elsewhere is refused rather than misread.
func TestDriverWithoutTheSettings(t *testing.T) {
	t.Parallel()
	reg := bson.NewRegistry()
	if got, err := setting[bson.Registry](&struct{ registry *bson.Registry }{reg}, "registry"); got != reg || err != nil {
		t.Error(got, err)
	}
	for name, of := range map[string]any{
		"no such field":   &struct{ other *bson.Registry }{},
		"another type":    &struct{ registry bson.Registry }{},
		"another pointer": &struct{ registry *options.BSONOptions }{},
		"an interface":    &struct{ registry any }{reg},
	} {
		_, err := setting[bson.Registry](of, "registry")
		if err == nil || !strings.Contains(err.Error(), "this version of the driver can't be used") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

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

// The caller's registry encodes every value of a filter, of an update and of array filters.
func TestRegistryEncodes(t *testing.T) {
	t.Parallel()
	type fields struct {
		Price francs
		Note  string `bson:",omitempty"`
	}
	e := emptyWorld(t, swiss()).peer(relations.Exclusive()).Engine
	for _, filter := range []any{bson.D{{Key: "price", Value: francs(12)}}, &fields{Price: 12}, bson.M{"price": bson.M{"$in": []francs{12}}}, bson.D{{Key: "_id", Value: francs(12)}}} {
		if f, err := e.ParseFilter(filter); err != nil || bytes.Count(f.doc, []byte("CHF 12")) != 1 || f.Pin != nil && f.Pin.ID().StringValue() != "CHF 12" {
			t.Errorf("%#v: %v, %v", filter, f, err)
		}
	}
	for n, updates := range map[int][]any{
		1: {
			bson.D{{Key: "$set", Value: bson.D{{Key: "price", Value: francs(12)}}}}, map[string]map[string]francs{"$set": {"price": 12}}, bson.M{"$set": &fields{Price: 12}},
			bson.A{bson.M{"$set": bson.M{"price": francs(12)}}}, []bson.D{{{Key: "$set", Value: fields{Price: 12}}}},
		},
		4: {bson.M{"$push": bson.M{"prices": francs(3)}, "$pull": bson.M{"old": francs(3)}, numbering: bson.M{"high": francs(4)}, "$set": fields{Price: 12}}},
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

// A grant's document is decoded without its lock, by the caller's registry.
func TestDecodeInto(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, swiss())
	w.Insert(bson.E{Key: "price", Value: "CHF 12"}, bson.E{Key: "lock", Value: bson.M{}}, bson.E{Key: "tools", Value: bson.A{"spade"}}, bson.E{Key: "nested", Value: bson.M{"lock": 1}})
	p := w.peer(relations.Exclusive())
	img := p.arrive(Request{Tag: "write", ID: ann, Document: true}, Granted)
	type shop struct {
		ID    int32 `bson:"_id"`
		Price francs
		Tools []string
		Lock  bson.M `bson:"lock"`
	}
	garden := &shop{ID: 1, Price: 12, Tools: []string{"spade"}}
	var pointed *shop
	for name, c := range map[string]struct{ into, want any }{
		"M":       {&bson.M{}, &bson.M{"_id": int32(1), "price": "CHF 12", "tools": bson.A{"spade"}, "nested": bson.D{{Key: "lock", Value: int32(1)}}}},
		"struct":  {&shop{}, garden},
		"pointer": {&pointed, &garden},
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

type sortedMap map[string]string

func (m sortedMap) MarshalBSON() ([]byte, error) {
	return bson.Marshal(bson.D{{Key: "group", Value: m["group"]}, {Key: "name", Value: m["name"]}})
}

// A map names another document each time, wherever the order of fields matters. A
// bson.D, a struct, a map of one field and operators are right.
func TestFilterRefusesMapsWithoutAnOrder(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Exclusive(), func(c *Config) { c.ShardKey = []string{"place.city"} })
	two, texts := bson.M{"group": "mail", "name": "nightly"}, map[string]string{"group": "mail", "name": "nightly"}
	type named struct{ Group, Name string }
	type wider struct {
		ID any `bson:"_id"`
	}
	type inlined struct {
		More map[string]any `bson:",inline"`
	}
	for name, c := range map[string]struct {
		filter  any
		refused bool
	}{
		"bson.M":                     {bson.M{"_id": two}, true},
		"a map of texts":             {bson.D{{Key: "_id", Value: texts}}, true},
		"a pointer to a map":         {bson.M{"_id": &two}, true},
		"below a bson.D":             {bson.M{"_id": bson.D{{Key: "x", Value: two}}}, true},
		"below a map of one":         {bson.M{"_id": bson.M{"x": two}}, true},
		"in an array":                {bson.M{"_id": bson.D{{Key: "x", Value: bson.A{1, two}}}}, true},
		"in a struct":                {bson.M{"_id": struct{ X any }{two}}, true},
		"inlined below the _id":      {bson.M{"_id": inlined{two}}, true},
		"of a struct":                {wider{two}, true},
		"of an inlined map":          {inlined{bson.M{"_id": two, "x": 1}}, true},
		"an operator's value":        {bson.M{"_id": bson.M{"$eq": two}}, true},
		"one of several":             {bson.M{"_id": bson.M{"$in": []any{1, two}}}, true},
		"a part of the _id":          {bson.M{"_id.x": two}, true},
		"in an $and":                 {bson.M{"$and": bson.A{bson.M{"_id": two}}}, true},
		"in a nested $or":            {bson.D{{Key: "$and", Value: []bson.M{{"$or": bson.A{bson.D{{Key: "_id", Value: two}}}}}}}, true},
		"the shard key":              {bson.M{"_id": 1, "place.city": two}, true},
		"around the shard key":       {bson.M{"_id": 1, "place": bson.M{"city": "Bern", "zip": 3000}}, true},
		"bson.D":                     {bson.M{"_id": bson.D{{Key: "group", Value: "mail"}, {Key: "name", Value: "nightly"}}}, false},
		"a struct":                   {bson.M{"_id": named{"mail", "nightly"}}, false},
		"a map of one":               {bson.M{"_id": bson.M{"name": "nightly"}}, false},
		"operators":                  {bson.M{"_id": bson.M{"$gte": 1, "$lt": 5}}, false},
		"a filter of several fields": {bson.M{"_id": 1, "state": "open", "total": bson.M{"$gt": 1, "$lt": 2}}, false},
		"another field":              {bson.M{"_id": 1, "address": two}, false},
		"a map that encodes itself":  {bson.M{"_id": sortedMap(texts)}, false},
		"bytes":                      {bson.M{"_id": []byte("mail")}, false},
		"nil":                        {bson.M{"_id": nil}, false},
		"a nil pointer":              {bson.M{"_id": (*named)(nil)}, false},
		"an ObjectID":                {bson.M{"_id": bson.NewObjectID()}, false},
		"encoded":                    {rawOf(bson.M{"_id": bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 2}}}), false},
	} {
		for range 3 {
			if _, err := e.ParseAny(c.filter); (err != nil) != c.refused || c.refused && !strings.Contains(err.Error(), "bson.D") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
