package update

import (
	"slices"

	"github.com/doclock/doclock/locktest/internal/query"
	"github.com/doclock/doclock/locktest/internal/stage"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// onArray is a modifier of arrays. A missing one is as an empty one, if the
// operator makes it.
func onArray(c change, modify func([]bson.RawValue) ([]bson.RawValue, error)) modifier {
	return func(v bson.RawValue) (bson.RawValue, error) {
		switch {
		case value.IsMissing(v) && keepers[c.operator]:
			return v, nil
		case !value.IsMissing(v) && !value.IsArray(v):
			return v, value.Refuse(value.BadValue, "Cannot apply %s to a non-array value: the field '%s' is of type %s", c.operator, c.path, value.TypeName(v))
		}
		elements, err := modify(value.Elements(v))
		return value.Array(elements), err
	}
}

// added are the elements that an operator adds: one, or those of $each.
func added(c change) ([]bson.RawValue, error) {
	each := value.Get(c.operand, "$each")
	if value.IsMissing(each) {
		return []bson.RawValue{c.operand}, nil
	}
	if !value.IsArray(each) {
		return nil, value.Refuse(value.BadValue, "The argument to $each in %s must be an array but it was of type %s", c.operator, value.TypeName(each))
	}
	return value.Elements(each), nil
}

func push(_ Update, c change) (modifier, error) {
	more, err := added(c)
	if err != nil {
		return nil, err
	}
	slice, position, sort := value.Missing, value.Missing, value.Missing
	if query.IsOperators(c.operand) {
		for name, operand := range value.Fields(c.operand) {
			switch name {
			case "$each":
			case "$slice":
				slice = operand
			case "$position":
				position = operand
			case "$sort":
				sort = operand
			default:
				return nil, value.Refuse(value.BadValue, "Unrecognized clause in $push: %s", name)
			}
		}
	}
	return onArray(c, func(elements []bson.RawValue) ([]bson.RawValue, error) {
		at := len(elements)
		if n, whole := value.Whole(position); whole {
			if n < 0 {
				n = max(0, n+int64(at))
			}
			at = int(min(n, int64(at)))
		}
		elements = slices.Insert(elements, at, more...)
		if !value.IsMissing(sort) {
			slices.SortStableFunc(elements, func(a, b bson.RawValue) int { return sorted(sort, a, b) })
		}
		if n, whole := value.Whole(slice); whole {
			if n < 0 {
				return elements[max(0, int64(len(elements))+n):], nil
			}
			return elements[:min(n, int64(len(elements)))], nil
		}
		return elements, nil
	}), nil
}

// sorted compares two elements by the $sort of a $push.
func sorted(by, a, b bson.RawValue) int {
	if value.IsDocument(by) {
		return stage.Order(by, a, b)
	}
	return int(value.Float(by)) * value.Compare(a, b)
}

func addToSet(_ Update, c change) (modifier, error) {
	more, err := added(c)
	if err != nil {
		return nil, err
	}
	return onArray(c, func(elements []bson.RawValue) ([]bson.RawValue, error) {
		for _, v := range more {
			if !slices.ContainsFunc(elements, func(e bson.RawValue) bool { return value.Equal(e, v) }) {
				elements = append(elements, v)
			}
		}
		return elements, nil
	}), nil
}

// pull removes the elements that match: documents by a filter, values by operators
// or by equality.
func pull(u Update, c change) (modifier, error) {
	asFilter := value.IsDocument(c.operand) && !query.IsOperators(c.operand)
	return onArray(c, func(elements []bson.RawValue) ([]bson.RawValue, error) {
		var kept []bson.RawValue
		for _, e := range elements {
			var matches bool
			var err error
			switch {
			case asFilter && value.IsDocument(e):
				matches, err = u.Query.Match(c.operand, e)
			case !asFilter:
				matches, err = u.Query.MatchValue(c.operand, e)
			}
			if err != nil {
				return nil, err
			}
			if !matches {
				kept = append(kept, e)
			}
		}
		return kept, nil
	}), nil
}

func pullAll(_ Update, c change) (modifier, error) {
	if !value.IsArray(c.operand) {
		return nil, value.Refuse(value.BadValue, "$pullAll requires an array argument but was given a %s", value.TypeName(c.operand))
	}
	all := value.Elements(c.operand)
	return onArray(c, func(elements []bson.RawValue) ([]bson.RawValue, error) {
		return slices.DeleteFunc(elements, func(e bson.RawValue) bool {
			return slices.ContainsFunc(all, func(v bson.RawValue) bool { return value.Equal(e, v) })
		}), nil
	}), nil
}

func pop(_ Update, c change) (modifier, error) {
	n, whole := value.Whole(c.operand)
	if !whole || n != 1 && n != -1 {
		return nil, value.Refuse(value.FailedToParse, "$pop expects 1 or -1")
	}
	return onArray(c, func(elements []bson.RawValue) ([]bson.RawValue, error) {
		switch {
		case len(elements) == 0:
			return elements, nil
		case n < 0:
			return elements[1:], nil
		default:
			return elements[:len(elements)-1], nil
		}
	}), nil
}
