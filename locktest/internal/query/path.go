package query

import (
	"slices"
	"strconv"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// visitor is told a value that a path leads to, and whether the elements of an
// array count as well. It returns whether that is enough.
type visitor func(v bson.RawValue, elements bool) bool

// find calls visit with each value that a path leads to, until visit returns true.
// Where there is none, it visits a missing value. A path goes on in each document
// of an array, and in the element that a number names. Of an array that the last
// part of a path names by its number, the elements don't count.
func find(v bson.RawValue, path []string, visit visitor) bool {
	switch {
	case len(path) == 0:
		return visit(v, true)
	case value.IsDocument(v):
		return find(value.Get(v, path[0]), path[1:], visit)
	case value.IsArray(v):
		return findInEach(value.Elements(v), path, visit)
	default:
		return visit(value.Missing, true)
	}
}

func findInEach(elements []bson.RawValue, path []string, visit visitor) bool {
	if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(elements) {
		nested := value.IsDocument(elements[i]) || value.IsArray(elements[i])
		if len(path) == 1 && visit(elements[i], false) || len(path) > 1 && nested && find(elements[i], path[1:], visit) {
			return true
		}
	}
	for _, element := range elements {
		if value.IsDocument(element) && find(element, path, visit) {
			return true
		}
	}
	return false
}

// some reports whether a value passes, or an element of it does if it is an array.
func (m *matcher) some(test func(bson.RawValue) bool) visitor {
	return func(v bson.RawValue, elements bool) bool {
		return elements && !m.whole && slices.ContainsFunc(value.Elements(v), test) || test(v)
	}
}

// itself reports whether a value passes, without its elements.
func itself(test func(bson.RawValue) bool) visitor {
	return func(v bson.RawValue, _ bool) bool { return test(v) }
}
