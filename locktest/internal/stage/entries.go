package stage

import (
	"slices"
	"strconv"
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// key is one of an index's keys on its way to a value: what is left of its path.
type key struct {
	place int
	path  []string
}

// Entries are those that a document has in an index on these keys: one, or one for
// each element of an array that the keys lead through. A sort takes the first of
// them. A missing value counts as null, an empty array comes before it. It is not
// ok if the keys lead through two arrays side by side.
func Entries(keys, document bson.RawValue) (entries [][]bson.RawValue, ok bool) {
	var all []key
	for path := range value.Fields(keys) {
		all = append(all, key{len(all), strings.Split(path, ".")})
	}
	return follow(document, all, make([]bson.RawValue, len(all)))
}

// follow completes an entry, whose other keys have their values.
func follow(v bson.RawValue, keys []key, entry []bson.RawValue) (entries [][]bson.RawValue, ok bool) {
	var array bson.RawValue
	var inArray []key
	for _, k := range keys {
		at, rest := lead(v, k.path)
		switch {
		case !value.IsArray(at):
			if entry[k.place] = at; value.IsMissing(at) {
				entry[k.place] = value.Null
			}
			continue
		case len(inArray) > 0 && &at.Value[0] != &array.Value[0]:
			return nil, false
		}
		array, inArray = at, append(inArray, key{k.place, rest})
	}
	if len(inArray) == 0 {
		return [][]bson.RawValue{entry}, true
	}
	elements := value.Elements(array)
	if len(elements) == 0 {
		for _, k := range inArray {
			if entry[k.place] = value.Null; len(k.path) == 0 {
				entry[k.place] = bson.RawValue{Type: bson.TypeUndefined}
			}
		}
		return [][]bson.RawValue{entry}, true
	}
	for _, element := range elements {
		one := slices.Clone(entry)
		var deeper []key
		for _, k := range inArray {
			switch {
			case len(k.path) == 0:
				one[k.place] = element
			case value.IsDocument(element):
				deeper = append(deeper, k)
			default:
				one[k.place] = value.Null
			}
		}
		more, ok := follow(element, deeper, one)
		if !ok {
			return nil, false
		}
		entries = append(entries, more...)
	}
	return entries, true
}

// lead follows a path to its end, or to an array. A number in the path goes on to
// that element.
func lead(v bson.RawValue, path []string) (at bson.RawValue, rest []string) {
	for ; len(path) > 0; path = path[1:] {
		if !value.IsArray(v) {
			v = value.Get(v, path[0])
			continue
		}
		elements := value.Elements(v)
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(elements) {
			break
		}
		v = elements[i]
	}
	return v, path
}
