package engine

import (
	"errors"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Filter is a caller's filter that was checked and encoded.
type Filter struct {
	doc bson.Raw

	// Pin is there where the filter demands, at its top level, equality of the
	// _id and of all fields of the shard key: such an acquire finds the same
	// document again, and may be repeated. An _id alone names one document of
	// each shard.
	Pin Pin

	// Exact: the filter demands nothing else. Whoever has the document has
	// what such a filter would find.
	Exact bool
}

// ParseFilter checks and encodes a caller's filter, and keeps nothing of the
// caller's. A filter that names no document in particular is a mistake.
func (e *Engine) ParseFilter(filter any) (Filter, error) {
	doc, err := e.encoder.document(filter)
	if err != nil {
		return Filter{}, err
	}
	fields, err := doc.Elements()
	if err != nil {
		return Filter{}, err
	}
	if len(fields) == 0 {
		return Filter{}, errors.New("an empty filter would lock any document; name one, as by its _id")
	}
	f := Filter{doc: doc, Pin: e.pinned(doc)}
	f.Exact = len(fields) == len(f.Pin)
	return f, nil
}

// Key is equal for filters that are equal, field by field in their order.
func (f Filter) Key() string { return string(f.doc) }

// pinned is the pin that a filter demands, or nil.
func (e *Engine) pinned(filter bson.Raw) Pin {
	pin := make(Pin, 0, 1+len(e.ShardKey))
	for _, key := range append([]string{"_id"}, e.ShardKey...) {
		v, err := filter.LookupErr(key)
		if err != nil || !isEquality(v) {
			return nil
		}
		pin = append(pin, bson.E{Key: key, Value: v})
	}
	return pin
}

// isEquality tells a value to be equal to from a document of operators, and
// from a regular expression, which a filter matches.
func isEquality(v bson.RawValue) bool {
	switch v.Type {
	case bson.TypeRegex:
		return false
	case bson.TypeEmbeddedDocument:
		elements, err := v.Document().Elements()
		return err == nil && (len(elements) == 0 || !strings.HasPrefix(elements[0].Key(), "$"))
	default:
		return true
	}
}

// At narrows the filter to the one document that it was seen to match.
func (f Filter) At(pin Pin) Filter {
	if f.Pin != nil {
		return f
	}
	both := value(bson.D{{Key: "$and", Value: bson.A{f.doc, bson.D(pin)}}})
	return Filter{doc: both.Value, Pin: pin}
}
