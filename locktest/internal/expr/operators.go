package expr

import (
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// operators are the expressions that are known. It is filled in init, because
// they evaluate expressions themselves.
var operators map[string]func(*Scope, bson.RawValue) bson.RawValue

func init() {
	operators = map[string]func(*Scope, bson.RawValue) bson.RawValue{
		"$literal": func(_ *Scope, e bson.RawValue) bson.RawValue { return e },
		"$let":     (*Scope).let,

		"$cond":   (*Scope).cond,
		"$ifNull": (*Scope).ifNull,
		"$switch": (*Scope).switches,
		"$and":    func(s *Scope, e bson.RawValue) bson.RawValue { return s.junction(e, false) },
		"$or":     func(s *Scope, e bson.RawValue) bson.RawValue { return s.junction(e, true) },
		"$not": func(s *Scope, e bson.RawValue) bson.RawValue {
			return value.Bool(!value.Truth(s.operands(e)[0]))
		},

		"$cmp": func(s *Scope, e bson.RawValue) bson.RawValue {
			v := s.operands(e)
			return value.Int(int32(s.compare(v[0], v[1])))
		},
		"$eq":  comparison(func(c int) bool { return c == 0 }),
		"$ne":  comparison(func(c int) bool { return c != 0 }),
		"$gt":  comparison(func(c int) bool { return c > 0 }),
		"$gte": comparison(func(c int) bool { return c >= 0 }),
		"$lt":  comparison(func(c int) bool { return c < 0 }),
		"$lte": comparison(func(c int) bool { return c <= 0 }),

		"$add":      (*Scope).add,
		"$subtract": (*Scope).subtract,
		"$multiply": (*Scope).multiply,
		"$max":      func(s *Scope, e bson.RawValue) bson.RawValue { return s.extreme(e, 1) },
		"$min":      func(s *Scope, e bson.RawValue) bson.RawValue { return s.extreme(e, -1) },
		"$sum":      (*Scope).sum,
		"$toLong":   (*Scope).toLong,

		"$type": func(s *Scope, e bson.RawValue) bson.RawValue {
			return value.String(value.TypeName(s.operands(e)[0]))
		},
		"$isArray": func(s *Scope, e bson.RawValue) bson.RawValue {
			return value.Bool(value.IsArray(s.operands(e)[0]))
		},
		"$concat":     (*Scope).concat,
		"$regexMatch": (*Scope).regexMatch,

		"$size":            (*Scope).size,
		"$arrayElemAt":     (*Scope).elementAt,
		"$concatArrays":    (*Scope).concatArrays,
		"$slice":           (*Scope).slice,
		"$in":              (*Scope).in,
		"$filter":          (*Scope).filter,
		"$map":             (*Scope).mapped,
		"$setIsSubset":     (*Scope).subset,
		"$setUnion":        (*Scope).union,
		"$allElementsTrue": func(s *Scope, e bson.RawValue) bson.RawValue { return s.elements(e, "$allElementsTrue", 17040, true) },
		"$anyElementTrue":  func(s *Scope, e bson.RawValue) bson.RawValue { return s.elements(e, "$anyElementTrue", 17041, false) },

		"$mergeObjects":  (*Scope).mergeObjects,
		"$objectToArray": (*Scope).objectToArray,
		"$arrayToObject": (*Scope).arrayToObject,
	}
}

func comparison(holds func(int) bool) func(*Scope, bson.RawValue) bson.RawValue {
	return func(s *Scope, e bson.RawValue) bson.RawValue {
		v := s.operands(e)
		return value.Bool(holds(s.compare(v[0], v[1])))
	}
}

// compare is the order of two values. A strict scope refuses two texts that differ by
// their case alone: a collection's collation might make them equal.
func (s *Scope) compare(a, b bson.RawValue) int {
	if s.Strict && a.Type == bson.TypeString && b.Type == bson.TypeString && a.StringValue() != b.StringValue() && strings.EqualFold(a.StringValue(), b.StringValue()) {
		s.refuse(value.Unsupported("a comparison of texts in strict mode: %s and %s", a, b))
	}
	return value.Compare(a, b)
}
