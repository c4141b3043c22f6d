package engine

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// encoder encodes the caller's values as the caller's collection does, and
// decodes documents for the caller.
//
// The driver encodes inside each command. A command of this library may outlive
// the call that asked for it, and may be repeated. So the driver would read the
// caller's maps and slices while the caller changes them, and write values that
// the caller never passed. It would also run the caller's codecs in goroutines
// where the caller can't recover their panics. Therefore all values of the
// caller are encoded once, in the caller's goroutine, before anything is sent.
// Commands carry the bytes, on a collection with a registry of its own, and run
// no code of the caller.
//
// The driver exports neither the registry nor the BSON options of a collection,
// so they are read from its unexported fields. The alternatives are worse. To
// wait until the driver has encoded (a sentinel in the command) does not help
// repeats or clean-ups. An option that repeats the registry is easily
// forgotten, and then values are stored in the wrong form without an error. The
// driver's x/ packages promise no more than its fields do.
type encoder struct {
	registry *bson.Registry
	encoding []func(*bson.Encoder) // the BSON options that are on
	decoding []func(*bson.Decoder)
}

// newEncoder reads the collection's settings.
func newEncoder(coll *mongo.Collection) (encoder, error) {
	registry, noRegistry := setting[bson.Registry](coll, "registry")
	opts, noOptions := setting[options.BSONOptions](coll, "bsonOpts")
	if err := errors.Join(noRegistry, noOptions); err != nil {
		return encoder{}, err
	}
	e := encoder{registry: registry}
	if registry == nil {
		e.registry = plainRegistry
	}
	if opts != nil {
		e.encoding, e.decoding = encoding(*opts), decoding(*opts)
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
	switch t := v.(type) {
	case nil:
		return nil, errors.New("nil is not a document; " + wantDocument)
	case []byte:
		v = bson.Raw(t)
	case bson.D:
		if t == nil {
			v = bson.D{}
		}
	case bson.Marshaler:
	case bson.ValueMarshaler: // the driver takes these inside documents only
		encoded, err := e.value(v)
		if err != nil {
			return nil, err
		}
		return documentOf(encoded)
	}
	var buffer bytes.Buffer
	err := e.writer(&buffer).Encode(v)
	switch {
	case err == nil:
		return buffer.Bytes(), nil
	case errors.As(err, &bson.TransitionError{}) || !holdsFields(v):
		return nil, fmt.Errorf("a %T is not a document; %s: %w", v, wantDocument, err)
	default:
		return nil, mongo.MarshalError{Value: v, Err: err}
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
	for _, set := range e.encoding {
		set(w)
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
	for _, set := range e.decoding {
		set(r)
	}
	return r.Decode(target)
}

// choose lists the options that are on.
func choose[T any](options ...choice[T]) []func(*T) {
	var on []func(*T)
	for _, o := range options {
		if o.on {
			on = append(on, o.set)
		}
	}
	return on
}

type choice[T any] struct {
	on  bool
	set func(*T)
}

func encoding(o options.BSONOptions) []func(*bson.Encoder) {
	return choose(
		choice[bson.Encoder]{o.ErrorOnInlineDuplicates, (*bson.Encoder).ErrorOnInlineDuplicates},
		choice[bson.Encoder]{o.IntMinSize, (*bson.Encoder).IntMinSize},
		choice[bson.Encoder]{o.NilByteSliceAsEmpty, (*bson.Encoder).NilByteSliceAsEmpty},
		choice[bson.Encoder]{o.NilMapAsEmpty, (*bson.Encoder).NilMapAsEmpty},
		choice[bson.Encoder]{o.NilSliceAsEmpty, (*bson.Encoder).NilSliceAsEmpty},
		choice[bson.Encoder]{o.OmitZeroStruct, (*bson.Encoder).OmitZeroStruct},
		choice[bson.Encoder]{o.OmitEmpty, (*bson.Encoder).OmitEmpty},
		choice[bson.Encoder]{o.StringifyMapKeysWithFmt, (*bson.Encoder).StringifyMapKeysWithFmt},
		choice[bson.Encoder]{o.UseJSONStructTags, (*bson.Encoder).UseJSONStructTags},
	)
}

func decoding(o options.BSONOptions) []func(*bson.Decoder) {
	return choose(
		choice[bson.Decoder]{o.AllowTruncatingDoubles, (*bson.Decoder).AllowTruncatingDoubles},
		choice[bson.Decoder]{o.BinaryAsSlice, (*bson.Decoder).BinaryAsSlice},
		choice[bson.Decoder]{o.DefaultDocumentM, (*bson.Decoder).DefaultDocumentM},
		choice[bson.Decoder]{o.DefaultDocumentMap, (*bson.Decoder).DefaultDocumentMap},
		choice[bson.Decoder]{o.ObjectIDAsHexString, (*bson.Decoder).ObjectIDAsHexString},
		choice[bson.Decoder]{o.UseJSONStructTags, (*bson.Decoder).UseJSONStructTags},
		choice[bson.Decoder]{o.UseLocalTimeZone, (*bson.Decoder).UseLocalTimeZone},
		choice[bson.Decoder]{o.ZeroMaps, (*bson.Decoder).ZeroMaps},
		choice[bson.Decoder]{o.ZeroStructs, (*bson.Decoder).ZeroStructs},
	)
}
