package query

import (
	"strconv"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// find calls visit with each value that a path leads to, until visit returns true.
// Where there is none, it visits a missing value. A path goes on in each document
// of an array, and in the element that a number names.
func find(v bson.RawValue, path []string, visit func(bson.RawValue) bool) bool {
	switch {
	case len(path) == 0:
		return visit(v)
	case value.IsDocument(v):
		return find(value.Get(v, path[0]), path[1:], visit)
	case value.IsArray(v):
		elements := value.Elements(v)
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(elements) && find(elements[i], path[1:], visit) {
			return true
		}
		for _, element := range elements {
			if value.IsDocument(element) && find(element, path, visit) {
				return true
			}
		}
		return false
	default:
		return visit(value.Missing)
	}
}

// some reports whether a value passes, or an element of it does if it is an array.
func some(test func(bson.RawValue) bool) func(bson.RawValue) bool {
	return func(v bson.RawValue) bool {
		for _, element := range value.Elements(v) {
			if test(element) {
				return true
			}
		}
		return test(v)
	}
}
