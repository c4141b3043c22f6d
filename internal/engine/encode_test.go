package engine

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
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
