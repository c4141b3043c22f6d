package recorded

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

func pick[T any](t *rapid.T, what string, of ...T) T { return rapid.SampledFrom(of).Draw(t, what) }

func dec(text string) bson.Decimal128 {
	d, err := bson.ParseDecimal128(text)
	if err != nil {
		panic(err)
	}
	return d
}

var plain = []any{int32(0), int32(1), int32(2), int32(-1), "x", "y", "", nil, true, false, int64(1), 1.0, 1.5}

var odd = []any{
	int64(1<<53 + 1), int64(math.MaxInt64), int32(math.MaxInt32), math.NaN(), math.Copysign(0, -1), math.Inf(1), dec("1"), dec("1.0"), dec("0.1"), dec("NaN"),
	0.1, bson.DateTime(-5), bson.DateTime(0), bson.MinKey{}, bson.MaxKey{}, bson.Binary{Data: []byte{1}}, bson.Binary{Subtype: 4, Data: []byte("0123456789abcdef")},
	bson.ObjectID{1}, bson.Timestamp{T: 1, I: 1}, bson.Regex{Pattern: "x"}, "xy", "X",
}

func scalar(t *rapid.T) any {
	if rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
		return pick(t, "odd value", odd...)
	}
	return pick(t, "value", plain...)
}

func anyValue(t *rapid.T, depth int) any {
	switch n := rapid.IntRange(0, 5).Draw(t, "shape"); {
	case n >= 4 && depth > 0:
		all := bson.A{}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			all = append(all, anyValue(t, depth-1))
		}
		return all
	case n == 3 && depth > 0:
		return document(t, depth-1, "b", "c")
	default:
		return scalar(t)
	}
}

func document(t *rapid.T, depth int, keys ...string) bson.D {
	d := bson.D{}
	for _, k := range keys {
		if rapid.IntRange(0, 3).Draw(t, "there") > 0 {
			d = append(d, bson.E{Key: k, Value: anyValue(t, depth)})
		}
	}
	return d
}

func path(t *rapid.T) string {
	return pick(t, "path", "a", "a", "b", "c", "a.b", "a.b", "a.c", "b.b", "a.0", "a.1", "a.0.b", "a.b.c", "a.b.0", "a.b.b")
}

func values(t *rapid.T, n int) bson.A {
	all := bson.A{}
	for range rapid.IntRange(0, n).Draw(t, "n") {
		all = append(all, anyValue(t, 1))
	}
	return all
}

func condition(t *rapid.T, depth int) any {
	if rapid.IntRange(0, 2).Draw(t, "equal") == 0 {
		return anyValue(t, 2)
	}
	d := bson.D{}
	for range rapid.IntRange(1, 2).Draw(t, "operators") {
		name := pick(t, "operator", "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$type", "$size", "$all", "$elemMatch", "$not", "$regex")
		var v any
		switch name {
		case "$in", "$nin":
			v = values(t, 3)
		case "$all": // none matches nothing
			v = append(values(t, 2), anyValue(t, 1))
		case "$exists":
			v = pick[any](t, "exists", true, false, int32(1), int32(0))
		case "$type":
			v = pick[any](t, "type", "number", "string", "array", "object", "null", "bool", int32(16), int32(-1), bson.A{"int", "string"}, "nope")
		case "$size":
			v = pick[any](t, "size", int32(0), int32(1), int32(2), 1.0, 1.5, "x")
		case "$elemMatch":
			if v = filter(t, 0, "b", "c", "b.c"); rapid.Bool().Draw(t, "of values") {
				v = condition(t, 0)
				if _, ok := v.(bson.D); !ok {
					v = bson.D{{Key: "$gte", Value: v}}
				}
			}
		case "$not":
			if depth == 0 {
				continue
			}
			v = condition(t, depth-1)
		case "$regex":
			v = pick[any](t, "regex", "x", "^x", "y$", bson.Regex{Pattern: "X", Options: "i"}, int32(5))
		default:
			v = anyValue(t, 1)
		}
		d = append(d, bson.E{Key: name, Value: v})
	}
	if len(d) == 0 {
		return int32(1)
	}
	return d
}

func filter(t *rapid.T, depth int, paths ...string) bson.D {
	d := bson.D{}
	for range rapid.IntRange(0, 2).Draw(t, "parts") {
		if depth > 0 && rapid.IntRange(0, 4).Draw(t, "joint") == 0 {
			list := bson.A{}
			for range rapid.IntRange(0, 2).Draw(t, "filters") {
				list = append(list, filter(t, depth-1, paths...))
			}
			if name := pick(t, "joint", "$and", "$or", "$nor"); len(d) == 0 {
				d = append(d, bson.E{Key: name, Value: list})
			}
			continue
		}
		p := ""
		if len(paths) > 0 {
			p = pick(t, "path", paths...)
		} else {
			p = path(t)
		}
		if !slices.ContainsFunc(d, func(e bson.E) bool { return e.Key == p }) {
			d = append(d, bson.E{Key: p, Value: condition(t, 1)})
		}
	}
	return d
}

// order sorts documents, without what servers are known to sort in their own way: empty
// arrays, and arrays that a number in a path names.
func order(t *rapid.T, documents []any) bson.D {
	d := bson.D{}
	text := fmt.Sprint(documents...)
	for range rapid.IntRange(0, 2).Draw(t, "keys") {
		p := path(t)
		if strings.Contains(text, "[]") || strings.Contains(text, "[[") && strings.ContainsAny(p, "01") || slices.ContainsFunc(d, func(e bson.E) bool { return e.Key == p }) {
			continue
		}
		d = append(d, bson.E{Key: p, Value: pick[any](t, "direction", int32(1), int32(-1), 1.0, int64(-1))})
	}
	return append(d, bson.E{Key: "_id", Value: int32(1)})
}

func projection(t *rapid.T) bson.D {
	d := bson.D{}
	if rapid.Bool().Draw(t, "any") {
		flag := pick[any](t, "flag", int32(1), true, int32(0), false)
		for range rapid.IntRange(1, 3).Draw(t, "fields") {
			d = append(d, bson.E{Key: path(t), Value: flag})
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "id") == 0 {
		d = append(d, bson.E{Key: "_id", Value: pick[any](t, "id", int32(1), int32(0))})
	}
	return d
}
