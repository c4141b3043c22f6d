package engine

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// fieldsOf lists a document's fields, with the caller's values as they came.
// A document that only a codec can open is opaque: its fields are known, their
// values not to be used.
func fieldsOf(doc any) (fields bson.D, opaque bool, err error) {
	switch t := doc.(type) {
	case nil:
		return nil, false, errors.New("nil is not a document; give a bson.D, bson.M, bson.Raw or a struct")
	case bson.D:
		return t, false, nil
	case bson.M: // most updates are, and every write takes one apart
		for key, value := range t {
			fields = append(fields, bson.E{Key: key, Value: value})
		}
		return sorted(fields), false, nil
	case bson.RawValue:
		raw, ok := t.DocumentOK()
		if !ok {
			return nil, false, fmt.Errorf("a value of type %s is not a document", t.Type)
		}
		fields, err = rawFields(raw)
		return fields, false, err
	case bson.Raw:
		fields, err = rawFields(t)
		return fields, false, err
	case []byte:
		fields, err = rawFields(t)
		return fields, false, err
	case bson.Marshaler:
		raw, err := t.MarshalBSON()
		if err != nil {
			return nil, false, err
		}
		fields, err = rawFields(raw)
		return fields, false, err
	case bson.ValueMarshaler:
		kind, data, err := t.MarshalBSONValue()
		if err != nil {
			return nil, false, err
		}
		return fieldsOf(bson.RawValue{Type: bson.Type(kind), Value: data})
	}
	v := reflect.ValueOf(doc)
	if v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() != reflect.Struct {
		return fieldsOf(v.Elem().Interface())
	}
	if v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String {
		for key, value := range v.Seq2() {
			fields = append(fields, bson.E{Key: key.String(), Value: value.Interface()})
		}
		return sorted(fields), false, nil
	}
	raw, err := bson.Marshal(doc)
	if err != nil {
		return nil, false, fmt.Errorf("a %T is not a document; give a bson.D, bson.M, bson.Raw or a struct: %w", doc, err)
	}
	fields, err = rawFields(raw)
	return fields, true, err
}

func sorted(fields bson.D) bson.D {
	slices.SortFunc(fields, func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
	return fields
}

func rawFields(doc bson.Raw) (bson.D, error) {
	elements, err := doc.Elements()
	if err != nil {
		return nil, err
	}
	fields := make(bson.D, len(elements))
	for i, e := range elements {
		fields[i] = bson.E{Key: e.Key(), Value: e.Value()}
	}
	return fields, nil
}
