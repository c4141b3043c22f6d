package stage

import (
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Sort sorts documents, or what has them, by the keys of a sort.
func Sort[T any](keys bson.RawValue, all []T, document func(T) bson.RawValue) error {
	if !value.IsDocument(keys) {
		return value.Refuse(value.TypeMismatch, "a sort is of type %s, and must be an object", value.TypeName(keys))
	}
	var signs []int
	for path, direction := range value.Fields(keys) {
		if strings.HasPrefix(path, "$") {
			return value.Unsupported("a sort by %s", path)
		}
		if slices.Contains(strings.Split(path, "."), "") {
			return value.Refuse(15998, "FieldPath field names may not be empty strings: %q", path)
		}
		if !value.IsNumber(direction) {
			return value.Refuse(15974, "Illegal key in $sort specification: %s: %s", path, direction)
		}
		n, whole := value.Whole(direction)
		if !whole || n != 1 && n != -1 {
			return value.Refuse(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending): %s", path)
		}
		signs = append(signs, int(n))
	}
	compare := func(a, b []bson.RawValue) int {
		for i, sign := range signs {
			if c := value.Compare(a[i], b[i]); c != 0 {
				return sign * c
			}
		}
		return 0
	}
	type placed struct {
		item  T
		entry []bson.RawValue
	}
	order := make([]placed, len(all))
	for i, item := range all {
		entries, ok := Entries(keys, document(item))
		if !ok {
			return value.Refuse(value.BadValue, "cannot sort with keys that are parallel arrays")
		}
		order[i] = placed{item, slices.MinFunc(entries, compare)}
	}
	slices.SortStableFunc(order, func(a, b placed) int { return compare(a.entry, b.entry) })
	for i, p := range order {
		all[i] = p.item
	}
	return nil
}
