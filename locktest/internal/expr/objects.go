package expr

import (
	"strings"

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
	all := value.Elements(v[0])
	for _, pair := range all {
		if err := pairs(all[0].Type, pair); err != nil {
			return s.refuse(err)
		}
		key, field := value.Get(pair, "k"), value.Get(pair, "v")
		if both := value.Elements(pair); len(both) == 2 {
			key, field = both[0], both[1]
		}
		if strings.Contains(key.StringValue(), "\x00") {
			return s.refusef(4940400, "Key field cannot contain an embedded null byte")
		}
		d = d.Set(key.StringValue(), field)
	}
	return d.Close()
}

// pairs refuses what is no pair of a key and a value in the form of the first one.
func pairs(first bson.Type, pair bson.RawValue) error {
	both, fields := value.Elements(pair), value.Open(pair)
	_, named := fields.Get("k").StringValueOK()
	switch {
	case first != bson.TypeArray && first != bson.TypeEmbeddedDocument:
		return value.Refuse(40398, "Unrecognised input type format for $arrayToObject: %s", value.TypeName(pair))
	case first == bson.TypeArray && !value.IsArray(pair):
		return value.Refuse(40396, "$arrayToObject: an array was detected, now found: %s", value.TypeName(pair))
	case first != bson.TypeArray && !value.IsDocument(pair):
		return value.Refuse(40391, "$arrayToObject: an object was detected, now found: %s", value.TypeName(pair))
	case first == bson.TypeArray && len(both) != 2:
		return value.Refuse(40397, "$arrayToObject requires an array of size 2 arrays, found array of size: %d", len(both))
	case first == bson.TypeArray && both[0].Type != bson.TypeString:
		return value.Refuse(40395, "$arrayToObject requires a key of type string. Found key type: %s", value.TypeName(both[0]))
	case first == bson.TypeArray:
		return nil
	case len(fields) != 2:
		return value.Refuse(40392, "$arrayToObject requires the keys 'k' and 'v'. Found incorrect number of keys: %d", len(fields))
	case value.IsMissing(fields.Get("k")) || value.IsMissing(fields.Get("v")):
		return value.Refuse(40393, "$arrayToObject requires the keys 'k' and 'v': %s", pair)
	case !named:
		return value.Refuse(40394, "$arrayToObject requires a 'k' of type string. Found type: %s", value.TypeName(fields.Get("k")))
	}
	return nil
}
