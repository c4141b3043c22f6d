package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// value marshals a part of a command that is the library's own. In a command it
// may stand beside the caller's parts, but the caller's registry and BSON
// options can't alter it.
func value(v any) bson.RawValue {
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		panic(fmt.Sprintf("doclock: marshal a value of the library's own: %v", err))
	}
	return bson.RawValue{Type: kind, Value: data}
}

// encoded is a part of a command, which may be encoded already.
func encoded(part any) bson.RawValue {
	switch part := part.(type) {
	case bson.RawValue:
		return part
	case bson.Raw:
		return embedded(part)
	default:
		return value(part)
	}
}

// idValue is an id in the document's form.
func idValue(id uuid.UUID) bson.RawValue {
	data := append(make([]byte, 0, 5+len(id)), byte(len(id)), 0, 0, 0, bson.TypeBinaryUUID) // every command has one or two
	return bson.RawValue{Type: bson.TypeBinary, Value: append(data, id[:]...)}
}

// idValues are ids in the document's form.
func idValues(ids []uuid.UUID) bson.A {
	all := make(bson.A, len(ids))
	for i, id := range ids {
		all[i] = idValue(id)
	}
	return all
}

// long is a number in the document's form. It needs no encoder.
func long(n int64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt64, Value: binary.LittleEndian.AppendUint64(nil, uint64(n))}
}

// textValue is a text in the document's form.
func textValue(s string) bson.RawValue {
	data := binary.LittleEndian.AppendUint32(make([]byte, 0, len(s)+5), uint32(len(s)+1))
	return bson.RawValue{Type: bson.TypeString, Value: append(append(data, s...), 0)}
}

// A template is a part of a command, encoded once. Only the entry's id, which has a
// fixed width, changes from one command to the next: to fill it in is a copy and a few
// overwritten bytes, without reflection.
type template struct {
	bson.RawValue
	ids []int // offsets of the id
}

// placeholder is what a template has in the place of the id. It is random: nothing else
// in a command is mistaken for it.
var placeholder = idValue(uuid.New())

func newTemplate(v any) *template {
	t, id := &template{RawValue: value(v)}, placeholder.Value[5:]
	for from := 0; ; from += len(id) {
		i := bytes.Index(t.Value[from:], id)
		if i < 0 {
			return t
		}
		from += i
		t.ids = append(t.ids, from)
	}
}

func (t *template) fill(id uuid.UUID) bson.RawValue {
	if len(t.ids) == 0 {
		return t.RawValue
	}
	filled := clone(t.RawValue)
	for _, i := range t.ids {
		copy(filled.Value[i:], id[:])
	}
	return filled
}

// firstStage is the only stage of a pipeline.
func firstStage(pipeline bson.RawValue) bson.Raw { return pipeline.Array().Index(0).Document() }

// assembly is a document, or an array, that is put together from encoded
// values. Whole elements may be appended to it.
type assembly []byte

// assemble begins one with room for size bytes of elements.
func assemble(size int) assembly { return make(assembly, 4, size+5) }

func (a assembly) add(key string, v bson.RawValue) assembly {
	a = append(a, byte(v.Type))
	a = append(a, key...)
	a = append(a, 0)
	return append(a, v.Value...)
}

func (a assembly) end() bson.Raw {
	a = append(a, 0)
	binary.LittleEndian.PutUint32(a, uint32(len(a)))
	return bson.Raw(a)
}

// field is a document with one field.
func field(key string, v bson.RawValue) bson.Raw {
	return assemble(len(key)+len(v.Value)+2).add(key, v).end()
}

// joined is a document with the elements of both.
func joined(a, b bson.Raw) bson.Raw {
	elements := func(doc bson.Raw) []byte { return doc[4 : len(doc)-1] }
	return append(append(assemble(len(a)+len(b)), elements(a)...), elements(b)...).end()
}

func embedded(doc bson.Raw) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: doc}
}

func array(values ...bson.RawValue) bson.RawValue {
	size := 0
	for _, v := range values {
		size += len(v.Value) + 8
	}
	a := assemble(size)
	for i, v := range values {
		a = a.add(strconv.Itoa(i), v)
	}
	return bson.RawValue{Type: bson.TypeArray, Value: a.end()}
}

func arrayOfDocuments(docs []bson.Raw) bson.RawValue {
	values := make([]bson.RawValue, len(docs))
	for i, doc := range docs {
		values[i] = embedded(doc)
	}
	return array(values...)
}

// without returns a copy of doc that lacks a top-level field.
func without(doc bson.Raw, field string) (bson.Raw, error) {
	elements, err := doc.Elements()
	if err != nil {
		return nil, err
	}
	kept := assemble(len(doc))
	for _, e := range elements {
		if e.Key() != field {
			kept = append(kept, e...)
		}
	}
	return kept.end(), nil
}

func clone(v bson.RawValue) bson.RawValue {
	return bson.RawValue{Type: v.Type, Value: bytes.Clone(v.Value)}
}

// encoder encodes the caller's values, and decodes documents for the caller, as his
// collection does: once, in his goroutine. The driver would encode inside a command, which
// may outlive its call, while he changes a map, and where nobody can recover from a panic.
//
// The driver exports neither the registry nor the BSON options of a collection: they are
// read from its unexported fields, because an option that repeats them is easily forgotten.
type encoder struct {
	registry *bson.Registry
	bson     options.BSONOptions
}

// newEncoder reads the collection's settings.
func newEncoder(coll *mongo.Collection) (encoder, error) {
	registry, noRegistry := setting[bson.Registry](coll, "registry")
	opts, noOptions := setting[options.BSONOptions](coll, "bsonOpts")
	if err := errors.Join(noRegistry, noOptions); err != nil {
		return encoder{}, err
	}
	e := encoder{registry: cmp.Or(registry, plainRegistry)}
	if opts != nil {
		e.bson = *opts
	}
	return e, nil
}

// plainRegistry is the registry of the commands.
var plainRegistry = bson.NewRegistry()

// setting reads an unexported pointer field of the driver. Its error says that
// this version of the driver has no such field.
func setting[T any](of any, name string) (*T, error) {
	field := reflect.ValueOf(of).Elem().FieldByName(name)
	if !field.IsValid() || field.Type() != reflect.TypeFor[*T]() {
		return nil, fmt.Errorf("this version of the driver can't be used: a %T has no field %s of type %v, by which the caller's values are encoded", of, name, reflect.TypeFor[*T]())
	}
	return (*T)(field.UnsafePointer()), nil
}

const wantDocument = "give a bson.D, bson.M, bson.Raw or a struct"

// document encodes a value that must be a document. The result shares nothing
// with v.
func (e *encoder) document(v any) (bson.Raw, error) {
	if bytes, isBytes := v.([]byte); isBytes {
		v = bson.Raw(bytes)
	}
	encoded, err := e.value(v)
	doc, isDocument := encoded.DocumentOK()
	_, isD := v.(bson.D)
	switch {
	case v == nil:
		return nil, errors.New("nil is not a document; " + wantDocument)
	case err != nil && holdsFields(v):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("a %T is not a document; %s: %w", v, wantDocument, err)
	case isDocument:
		return doc, nil
	case encoded.Type == bson.TypeNull && (isD || reflect.ValueOf(v).Kind() == reflect.Map): // the driver takes a nil one for an empty one
		return assemble(0).end(), nil
	default:
		return nil, fmt.Errorf("a %T is not a document; %s", v, wantDocument)
	}
}

// holdsFields reports whether a value that can't be encoded could be a
// document.
func holdsFields(v any) bool {
	switch reflect.Indirect(reflect.ValueOf(v)).Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array:
		return true
	default:
		return false
	}
}

// value encodes any value. The result shares nothing with v.
func (e *encoder) value(v any) (bson.RawValue, error) {
	var buffer bytes.Buffer
	if err := e.writer(&buffer).Encode(bson.D{{Key: "", Value: v}}); err != nil {
		return bson.RawValue{}, mongo.MarshalError{Value: v, Err: err}
	}
	element, err := bson.Raw(buffer.Bytes()).IndexErr(0)
	if err != nil {
		return bson.RawValue{}, err
	}
	return element.ValueErr()
}

// writer is the driver's encoder with the collection's settings.
func (e *encoder) writer(buffer *bytes.Buffer) *bson.Encoder {
	w := bson.NewEncoder(bson.NewDocumentWriter(buffer))
	w.SetRegistry(e.registry)
	o := &e.bson
	for _, option := range []struct {
		on  bool
		set func(*bson.Encoder)
	}{
		{o.ErrorOnInlineDuplicates, (*bson.Encoder).ErrorOnInlineDuplicates},
		{o.IntMinSize, (*bson.Encoder).IntMinSize},
		{o.NilByteSliceAsEmpty, (*bson.Encoder).NilByteSliceAsEmpty},
		{o.NilMapAsEmpty, (*bson.Encoder).NilMapAsEmpty},
		{o.NilSliceAsEmpty, (*bson.Encoder).NilSliceAsEmpty},
		{o.OmitZeroStruct, (*bson.Encoder).OmitZeroStruct},
		{o.OmitEmpty, (*bson.Encoder).OmitEmpty},
		{o.StringifyMapKeysWithFmt, (*bson.Encoder).StringifyMapKeysWithFmt},
		{o.UseJSONStructTags, (*bson.Encoder).UseJSONStructTags},
	} {
		if option.on {
			option.set(w)
		}
	}
	return w
}

// decode replaces the value of the caller's target by a document, with the same
// settings. A target that decodes itself does as it likes. After an error another one
// is as it was.
func (e *encoder) decode(doc bson.Raw, target any) error {
	switch target.(type) {
	case bson.Unmarshaler, bson.ValueUnmarshaler:
		return e.decodeInto(doc, target)
	}
	into := reflect.ValueOf(target).Elem()
	fresh := reflect.New(into.Type())
	if err := e.decodeInto(doc, fresh.Interface()); err != nil {
		return err
	}
	into.Set(fresh.Elem())
	return nil
}

func (e *encoder) decodeInto(doc bson.Raw, target any) error {
	r := bson.NewDecoder(bson.NewDocumentReader(bytes.NewReader(doc)))
	r.SetRegistry(e.registry)
	o := &e.bson
	for _, option := range []struct {
		on  bool
		set func(*bson.Decoder)
	}{
		{o.AllowTruncatingDoubles, (*bson.Decoder).AllowTruncatingDoubles},
		{o.BinaryAsSlice, (*bson.Decoder).BinaryAsSlice},
		{o.DefaultDocumentM, (*bson.Decoder).DefaultDocumentM},
		{o.DefaultDocumentMap, (*bson.Decoder).DefaultDocumentMap},
		{o.ObjectIDAsHexString, (*bson.Decoder).ObjectIDAsHexString},
		{o.UseJSONStructTags, (*bson.Decoder).UseJSONStructTags},
		{o.UseLocalTimeZone, (*bson.Decoder).UseLocalTimeZone},
		{o.ZeroMaps, (*bson.Decoder).ZeroMaps},
		{o.ZeroStructs, (*bson.Decoder).ZeroStructs},
	} {
		if option.on {
			option.set(r)
		}
	}
	return r.Decode(target)
}

// checkMaps refuses a map with several keys below the _id and the fields of the shard
// key. A document there is equal to another one only if its fields have the same order,
// and a map has none: each encoding of it would name another document. Operators have no
// order. It doesn't look into values that encode themselves. v is a filter, or a part of
// the identity that has this name.
func (e *Engine) checkMaps(v reflect.Value, identity string) error {
	v = indirect(v)
	if !v.IsValid() || e.encoder.encodesItself(v.Type()) {
		return nil
	}
	check := func(field string, value reflect.Value) error {
		switch {
		case identity != "":
			return e.checkMaps(value, identity)
		case slices.Contains([]string{"$and", "$or", "$nor"}, field):
			return e.checkMaps(value, "")
		case slices.ContainsFunc(e.identity(), func(key string) bool { return within(field, key) || within(key, field) }):
			return e.checkMaps(value, field)
		default:
			return nil
		}
	}
	var err error
	switch d, isD := asD(v); {
	case isD:
		for _, field := range d {
			err = cmp.Or(err, check(field.Key, reflect.ValueOf(field.Value)))
		}
	case v.Kind() == reflect.Map:
		if identity != "" && v.Len() > 1 && !slices.ContainsFunc(v.MapKeys(), isOperator) {
			return fmt.Errorf("%q has a %v of several fields, in which they have no order: it would name another document each time; give a bson.D or a struct", identity, v.Type())
		}
		for _, key := range v.MapKeys() {
			err = cmp.Or(err, check(fmt.Sprint(key), v.MapIndex(key)))
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			switch name, inline := fieldName(v.Type().Field(i)); {
			case inline: // its fields are those of the struct
				err = cmp.Or(err, e.checkMaps(v.Field(i), identity))
			case name != "":
				err = cmp.Or(err, check(name, v.Field(i)))
			}
		}
	case (v.Kind() == reflect.Slice || v.Kind() == reflect.Array) && v.Type().Elem().Kind() != reflect.Uint8:
		for i := range v.Len() {
			err = cmp.Or(err, e.checkMaps(v.Index(i), identity))
		}
	}
	return err
}

func isOperator(key reflect.Value) bool {
	return key.Kind() == reflect.String && strings.HasPrefix(key.String(), "$")
}

func asD(v reflect.Value) (d bson.D, is bool) {
	of := reflect.TypeFor[bson.D]()
	if v.Kind() != reflect.Slice || !v.CanInterface() || !v.Type().ConvertibleTo(of) {
		return nil, false
	}
	return v.Convert(of).Interface().(bson.D), true
}

// fieldName is the name of a struct's field in a document, or "" for none.
func fieldName(field reflect.StructField) (name string, inline bool) {
	tag, tagged := field.Tag.Lookup("bson")
	if !tagged {
		tag = field.Tag.Get("json")
	}
	name, options, _ := strings.Cut(tag, ",")
	switch {
	case !field.IsExported() || name == "-":
		return "", false
	case slices.Contains(strings.Split(options, ","), "inline"):
		return "", true
	case name == "":
		return strings.ToLower(field.Name), false
	default:
		return name, false
	}
}

// encodesItself says that the caller's code, and not the driver's for all values of its
// kind, encodes a type.
func (e *encoder) encodesItself(t reflect.Type) bool {
	var usual reflect.Type
	switch t.Kind() {
	case reflect.Map:
		usual = reflect.TypeFor[map[string]any]()
	case reflect.Struct:
		usual = reflect.TypeFor[struct{}]()
	default:
		return false
	}
	own, err := e.registry.LookupEncoder(t)
	common, _ := plainRegistry.LookupEncoder(usual)
	return err != nil || reflect.TypeOf(own) != reflect.TypeOf(common)
}

// indirect is what pointers and interfaces lead to, or the zero Value.
func indirect(v reflect.Value) reflect.Value {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		v = v.Elem()
	}
	return v
}
