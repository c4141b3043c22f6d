package update

import (
	"cmp"
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/query"
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
	clauses := value.Missing
	if !value.IsMissing(value.Get(c.operand, "$each")) {
		clauses = c.operand
	}
	for name, operand := range value.Fields(clauses) {
		_, valid := value.Whole(operand)
		switch name {
		case "$each":
			valid = true
		case "$slice", "$position":
		case "$sort":
			valid = checkSort(operand)
		default:
			return nil, value.Refuse(value.BadValue, "Unrecognized clause in $push: %s", name)
		}
		if !valid {
			return nil, value.Refuse(value.BadValue, "The value of %s in $push is invalid: %s", name, operand)
		}
	}
	slice, position, sort := value.Get(clauses, "$slice"), value.Get(clauses, "$position"), value.Get(clauses, "$sort")
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
			slices.SortStableFunc(elements, func(a, b bson.RawValue) int { return compare(sort, a, b) })
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

// checkSort reports whether the $sort of a $push is a direction, or one for each of
// some fields.
func checkSort(by bson.RawValue) bool {
	if n, whole := value.Whole(by); whole {
		return n == 1 || n == -1
	}
	for path, direction := range value.Fields(by) {
		if n, whole := value.Whole(direction); !whole || n != 1 && n != -1 || slices.Contains(strings.Split(path, "."), "") {
			return false
		}
	}
	return len(value.Open(by)) > 0
}

// compare is the order of two elements by the $sort of a $push. An array counts as a whole.
func compare(by, a, b bson.RawValue) int {
	if n, whole := value.Whole(by); whole {
		return int(n) * value.Compare(a, b)
	}
	for path, direction := range value.Fields(by) {
		n, _ := value.Whole(direction)
		if c := value.Compare(follow(a, path), follow(b, path)); c != 0 {
			return int(n) * c
		}
	}
	return 0
}

// follow returns what a path leads to in a document, also by an array's numbers. A missing value is null.
func follow(v bson.RawValue, path string) bson.RawValue {
	if value.IsDocument(v) {
		if found, err := bson.Raw(v.Value).LookupErr(strings.Split(path, ".")...); err == nil {
			return found
		}
	}
	return value.Null
}

func addToSet(_ Update, c change) (modifier, error) {
	more, err := added(c)
	if err == nil && !value.IsMissing(value.Get(c.operand, "$each")) && len(value.Open(c.operand)) > 1 {
		err = value.Refuse(value.BadValue, "Found unexpected fields after $each in $addToSet: %s", c.operand)
	}
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
	asCondition := query.IsOperators(c.operand) || c.operand.Type == bson.TypeRegex
	check := query.CheckCondition
	if asFilter {
		check = u.Query.Check
	}
	if err := cmp.Or(query.WithoutExpr(c.operand, value.NotAllowed), check(c.operand)); err != nil {
		return nil, err
	}
	return onArray(c, func(elements []bson.RawValue) ([]bson.RawValue, error) {
		return slices.DeleteFunc(elements, func(e bson.RawValue) bool {
			switch {
			case asCondition:
				return u.Query.MatchValue(c.operand, e)
			case !asFilter:
				return value.Equal(e, c.operand)
			case !value.IsDocument(e):
				return false
			}
			matches, _ := u.Query.Match(c.operand, e) // it has no $expr
			return matches
		}), nil
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
