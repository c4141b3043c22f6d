package expr

import (
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func (s *Scope) mergeObjects(e bson.RawValue) bson.RawValue {
	var merged value.Document
	for v := range s.each(e) {
		switch {
		case value.IsNullish(v):
			continue
		case !value.IsDocument(v):
			return s.refusef(40400, "$mergeObjects requires object inputs, but input is of type %s", value.TypeName(v))
		}
		for key, field := range value.Fields(v) {
			merged = merged.Set(key, field)
		}
	}
	return merged.Close()
}

func (s *Scope) objectToArray(e bson.RawValue) bson.RawValue {
	v := s.operands(e)[0]
	switch {
	case value.IsNullish(v):
		return value.Null
	case !value.IsDocument(v):
		return s.refusef(40390, "$objectToArray requires a document input, found: %s", value.TypeName(v))
	}
	var pairs []bson.RawValue
	for key, field := range value.Fields(v) {
		pairs = append(pairs, value.Document{{Key: "k", Value: value.String(key)}, {Key: "v", Value: field}}.Close())
	}
	return value.Array(pairs)
}

// arrayToObject takes pairs in both forms: {k: …, v: …} and [k, v].
func (s *Scope) arrayToObject(e bson.RawValue) bson.RawValue {
	v := s.operands(e)
	switch {
	case value.IsNullish(v[0]):
		return value.Null
	case !value.IsArray(v[0]):
		return s.refusef(40386, "$arrayToObject requires an array input, found: %s", value.TypeName(v[0]))
	}
	var d value.Document
	for _, pair := range value.Elements(v[0]) {
		key, field := value.Get(pair, "k"), value.Get(pair, "v")
		if both := value.Elements(pair); len(both) == 2 {
			key, field = both[0], both[1]
		}
		name, ok := key.StringValueOK()
		if !ok || value.IsMissing(field) {
			return s.refusef(40392, "$arrayToObject requires pairs of a key, which is a string, and a value")
		}
		d = d.Set(name, field)
	}
	return d.Close()
}
