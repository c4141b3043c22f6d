package query

import (
	"slices"

	"github.com/doclock/doclock/locktest/internal/regex"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// operator matches what a path leads to with one operator of a condition.
func (m *matcher) operator(v bson.RawValue, path []string, name string, operand, condition bson.RawValue) bool {
	switch name {
	case "$eq":
		return find(v, path, m.some(exactly(operand)))
	case "$ne":
		return !find(v, path, m.some(exactly(operand)))
	case "$gt":
		return find(v, path, m.some(ordered(operand, func(c int) bool { return c > 0 })))
	case "$gte":
		return find(v, path, m.some(ordered(operand, func(c int) bool { return c >= 0 })))
	case "$lt":
		return find(v, path, m.some(ordered(operand, func(c int) bool { return c < 0 })))
	case "$lte":
		return find(v, path, m.some(ordered(operand, func(c int) bool { return c <= 0 })))
	case "$in":
		return find(v, path, m.some(among(operand)))
	case "$nin":
		return !find(v, path, m.some(among(operand)))
	case "$not":
		return !m.field(v, path, operand)
	case "$exists":
		there := find(v, path, itself(func(v bson.RawValue) bool { return !value.IsMissing(v) }))
		return there == value.Truth(operand)
	case "$type":
		return find(v, path, m.some(typed(operand)))
	case "$regex":
		pattern, flags, _ := regexOf(condition)
		return find(v, path, m.some(matching(pattern, flags)))
	case "$size":
		n, _ := value.Whole(operand)
		return find(v, path, itself(func(v bson.RawValue) bool {
			return value.IsArray(v) && int64(len(value.Elements(v))) == n
		}))
	case "$all":
		for _, wanted := range value.Elements(operand) {
			if !m.field(v, path, wanted) {
				return false
			}
		}
		return len(value.Elements(operand)) > 0
	case "$elemMatch":
		return find(v, path, itself(m.elemMatch(operand)))
	default: // $options and $comment
		return true
	}
}

// ofValues reports whether an $elemMatch has operators, and not a filter.
func ofValues(condition bson.RawValue) bool {
	for _, joint := range []string{"$and", "$or", "$nor", "$expr"} {
		if !value.IsMissing(value.Get(condition, joint)) {
			return false
		}
	}
	return IsOperators(condition)
}

// elemMatch is the test that an array has an element that matches.
func (m *matcher) elemMatch(condition bson.RawValue) func(bson.RawValue) bool {
	ofValues := ofValues(condition)
	inner := &matcher{query: m.query, whole: ofValues}
	return func(v bson.RawValue) bool {
		for _, element := range value.Elements(v) {
			switch {
			case ofValues && inner.field(element, nil, condition):
				return true
			case !ofValues && (value.IsDocument(element) || value.IsArray(element)) && inner.document(condition, value.Doc(element.Value)):
				return true // an array is a document whose fields are 0, 1, …
			}
		}
		return false
	}
}

// ordered is a test of the order. Values of other types pass no such test, except
// beside the least and the greatest value of all. NaN is before and after nothing.
func ordered(operand bson.RawValue, holds func(int) bool) func(bson.RawValue) bool {
	return func(v bson.RawValue) bool {
		switch {
		case !alike(v, operand):
			return false
		case value.IsNumber(operand) && (value.IsNaN(v) || value.IsNaN(operand)):
			return value.Equal(v, operand) && holds(0)
		case value.IsNullish(v) && value.IsNullish(operand):
			return holds(0)
		default:
			return holds(value.Compare(v, operand))
		}
	}
}

func alike(a, b bson.RawValue) bool {
	switch {
	case value.IsNumber(b):
		return value.IsNumber(a)
	case b.Type == bson.TypeNull:
		return value.IsNullish(a)
	case b.Type == bson.TypeMinKey || b.Type == bson.TypeMaxKey:
		return true
	default:
		return a.Type == b.Type
	}
}

func among(list bson.RawValue) func(bson.RawValue) bool {
	var tests []func(bson.RawValue) bool
	for _, wanted := range value.Elements(list) {
		tests = append(tests, equals(wanted))
	}
	return func(v bson.RawValue) bool {
		return slices.ContainsFunc(tests, func(test func(bson.RawValue) bool) bool { return test(v) })
	}
}

// typed is the test of a type, or of several.
func typed(operand bson.RawValue) func(bson.RawValue) bool {
	types := []bson.RawValue{operand}
	if value.IsArray(operand) {
		types = value.Elements(operand)
	}
	return func(v bson.RawValue) bool {
		return slices.ContainsFunc(types, func(t bson.RawValue) bool {
			has, _ := value.HasType(v, t) // all are known
			return has
		})
	}
}

// matching is the test of a regular expression, which can be compiled.
func matching(pattern, flags string) func(bson.RawValue) bool {
	return func(v bson.RawValue) bool {
		if other, otherFlags, ok := v.RegexOK(); ok {
			return other == pattern && otherFlags == flags
		}
		text, ok := v.StringValueOK()
		if !ok {
			return false
		}
		found, _ := regex.Match(pattern, flags, text)
		return found
	}
}
