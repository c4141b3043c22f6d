package stage

import (
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Order compares two documents by the keys of a sort.
func Order(keys, a, b bson.RawValue) int {
	for path, direction := range value.Fields(keys) {
		sign := 1
		if n, _ := value.Whole(direction); n < 0 {
			sign = -1
		}
		if c := value.Compare(sortKey(a, path, sign), sortKey(b, path, sign)); c != 0 {
			return sign * c
		}
	}
	return 0
}

// sortKey is the value by which a document is sorted: of an array the least
// element, or the greatest if the order descends. A missing value sorts as null.
func sortKey(document bson.RawValue, path string, sign int) bson.RawValue {
	best := value.Missing
	consider := func(v bson.RawValue) {
		if value.IsMissing(v) {
			v = value.Null
		}
		if value.IsMissing(best) || sign*value.Compare(v, best) < 0 {
			best = v
		}
	}
	leaves(document, strings.Split(path, "."), consider)
	if value.IsMissing(best) {
		return value.Null
	}
	return best
}

func leaves(v bson.RawValue, path []string, visit func(bson.RawValue)) {
	switch {
	case value.IsArray(v):
		elements := value.Elements(v)
		for _, element := range elements {
			if len(path) == 0 {
				visit(element)
			} else {
				leaves(element, path, visit)
			}
		}
		if len(elements) == 0 && len(path) == 0 {
			visit(bson.RawValue{Type: bson.TypeUndefined}) // an empty array comes before null
		}
	case len(path) == 0:
		visit(v)
	case value.IsDocument(v):
		leaves(value.Get(v, path[0]), path[1:], visit)
	default:
		visit(value.Missing)
	}
}
