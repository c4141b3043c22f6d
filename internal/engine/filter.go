package engine

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Filter is a caller's filter that was checked.
type Filter struct {
	doc any

	// Pin is {_id: …} where the filter demands an equal _id at its top level:
	// such an acquire finds the same document again, and may be repeated.
	Pin Pin

	// Exact: the filter demands nothing else. Whoever has the document has
	// what such a filter would find.
	Exact bool
}

// ParseFilter checks a caller's filter. A filter that names no document in
// particular is a mistake.
func ParseFilter(filter any) (Filter, error) {
	fields, opaque, err := fieldsOf(filter)
	if err != nil {
		return Filter{}, err
	}
	if len(fields) == 0 {
		return Filter{}, errors.New("an empty filter would lock any document; name one, as by its _id")
	}
	if raw, ok := filter.([]byte); ok {
		filter = bson.Raw(raw)
	}
	f := Filter{doc: filter}
	for _, field := range fields {
		if field.Key != "_id" || !isEquality(field.Value) {
			continue
		}
		id := field.Value
		if opaque { // the caller's registry has to encode it
			var found bool
			if id, found = structID(reflect.ValueOf(filter)); !found {
				continue
			}
		}
		f.Pin = Pin{{Key: "_id", Value: id}}
		f.Exact = len(fields) == 1
	}
	return f, nil
}

// structID is the value of a struct's _id in its own type.
func structID(v reflect.Value) (id any, found bool) {
	v = reflect.Indirect(v)
	if v.Kind() != reflect.Struct {
		return nil, false
	}
	for i := range v.NumField() {
		name, opts, _ := strings.Cut(v.Type().Field(i).Tag.Get("bson"), ",")
		switch {
		case name == "_id" && v.Field(i).CanInterface():
			return v.Field(i).Interface(), true
		case slices.Contains(strings.Split(opts, ","), "inline"):
			if id, found := structID(v.Field(i)); found {
				return id, true
			}
		}
	}
	return nil, false
}

// isEquality tells a value to be equal to from a document of operators, and
// from a regular expression, which a filter matches.
func isEquality(v any) bool {
	if v == nil {
		return true // an _id may be null
	}
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		return false // only the caller's registry knows: the careful answer
	}
	if kind == bson.TypeRegex {
		return false
	}
	if kind != bson.TypeEmbeddedDocument {
		return true
	}
	elements, err := bson.Raw(data).Elements()
	return err == nil && (len(elements) == 0 || !strings.HasPrefix(elements[0].Key(), "$"))
}

// At narrows the filter to the one document that it was seen to match.
func (f Filter) At(pin Pin) Filter {
	if f.Pin != nil {
		return f
	}
	return Filter{doc: bson.D{{Key: "$and", Value: bson.A{f.doc, bson.D(pin)}}}, Pin: pin}
}
