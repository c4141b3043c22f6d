package update

import (
	"strconv"
	"strings"

	"github.com/doclock/doclock/locktest/internal/query"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// walk follows one path and changes what is at its end.
type walk struct {
	creates bool // it makes what is missing on the way
	passes  bool // it does nothing where something else is in the way
	modify  func(bson.RawValue) (bson.RawValue, error)
}

// longestArray bounds what a number in a path makes.
const longestArray = 1_500_000

// at is v after the change.
func (w walk) at(v bson.RawValue, path []string, whole string) (bson.RawValue, error) {
	if len(path) == 0 {
		return w.modify(v)
	}
	key, rest := path[0], path[1:]
	switch {
	case value.IsDocument(v):
		inner, err := w.at(value.Get(v, key), rest, whole)
		if err != nil {
			return v, err
		}
		return value.Open(v).Set(key, inner).Close(), nil
	case value.IsArray(v):
		return w.element(v, key, rest, whole)
	case value.IsMissing(v) && !w.creates || w.passes:
		return v, nil
	case value.IsMissing(v):
		inner, err := w.at(value.Missing, rest, whole)
		if err != nil || value.IsMissing(inner) {
			return v, err
		}
		return value.Document{{Key: key, Value: inner}}.Close(), nil
	default:
		return v, value.Refuse(value.NotViable, "Cannot create field '%s' in a value of type %s (path %s)", key, value.TypeName(v), whole)
	}
}

// element follows a number into an array.
func (w walk) element(array bson.RawValue, key string, rest []string, whole string) (bson.RawValue, error) {
	i, err := strconv.Atoi(key)
	if err != nil || i < 0 {
		if w.passes {
			return array, nil
		}
		return array, value.Refuse(value.NotViable, "Cannot create field '%s' in an array (path %s)", key, whole)
	}
	elements := value.Elements(array)
	if i >= len(elements) {
		if !w.creates {
			return array, nil
		}
		if i > longestArray {
			return array, value.Refuse(value.BadValue, "Exceeded max fill of an array (path %s)", whole)
		}
		elements = append(elements, make([]bson.RawValue, i+1-len(elements))...)
	}
	if elements[i], err = w.at(elements[i], rest, whole); err != nil {
		return array, err
	}
	return value.Array(elements), nil
}

// expand are the paths that a path with `$[]` or `$[identifier]` stands for in a
// document. All are found before anything is changed.
func (u Update) expand(v bson.RawValue, path []string, filters map[string]bson.RawValue) ([][]string, error) {
	if len(path) == 0 {
		return [][]string{nil}, nil
	}
	key, rest := path[0], path[1:]
	var heads []string
	if identifier, each := strings.CutPrefix(key, "$["); each {
		if !value.IsArray(v) {
			return nil, value.Refuse(value.BadValue, "The path must lead to an array in the document in order to apply array updates to '%s'", key)
		}
		for i, element := range value.Elements(v) {
			if u.passes(filters[strings.TrimSuffix(identifier, "]")], element) {
				heads = append(heads, strconv.Itoa(i))
			}
		}
	} else {
		heads = []string{key}
	}
	var all [][]string
	for _, head := range heads {
		inner := value.Get(v, head)
		if value.IsArray(v) { // as a document it has its elements by their numbers
			inner = value.Get(value.Doc(v.Value), head)
		}
		tails, err := u.expand(inner, rest, filters)
		if err != nil {
			return nil, err
		}
		for _, tail := range tails {
			all = append(all, append([]string{head}, tail...))
		}
	}
	return all, nil
}

// passes reports whether an element passes an array filter; each one passes none.
func (u Update) passes(filter, element bson.RawValue) bool {
	for key, condition := range value.Fields(filter) {
		_, path, nested := strings.Cut(key, ".")
		var passes bool
		if nested {
			passes, _ = u.Query.Match(value.Document{{Key: path, Value: condition}}.Close(), element) // it has no $expr
		} else {
			passes = u.Query.MatchValue(condition, element)
		}
		if !passes {
			return false
		}
	}
	return true
}

// arrayFilters are the array filters by their identifiers.
func arrayFilters(list bson.RawValue) (map[string]bson.RawValue, error) {
	filters := map[string]bson.RawValue{}
	for _, filter := range value.Elements(list) {
		name := ""
		for key, condition := range value.Fields(filter) {
			identifier, _, _ := strings.Cut(key, ".")
			switch {
			case strings.HasPrefix(key, "$") || strings.Contains(key, ".$"):
				return nil, value.Unsupported("%s in an array filter", key)
			case name != "" && name != identifier:
				return nil, value.Refuse(value.FailedToParse, "Error parsing array filter :: caused by :: Expected a single top-level field name, found '%s' and '%s'", name, identifier)
			}
			if err := query.CheckCondition(condition); err != nil {
				return nil, err
			}
			name = identifier
		}
		if _, twice := filters[name]; twice || name == "" {
			return nil, value.Refuse(value.FailedToParse, "Found an empty array filter, or multiple array filters with the same top-level field name %s", name)
		}
		filters[name] = filter
	}
	return filters, nil
}
