package recorded

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// expression is of the operators that the docs promise.
func expression(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
		if rapid.Bool().Draw(t, "path") {
			return "$" + path(t)
		}
		v := scalar(t)
		return v
	}
	sub := func() any { return expression(t, depth-1) }
	list := func(n int) bson.A {
		all := bson.A{}
		for range n {
			all = append(all, sub())
		}
		return all
	}
	switch name := pick(t, "expression", "$add", "$subtract", "$multiply", "$max", "$min", "$sum", "$size", "$arrayElemAt", "$concatArrays", "$slice", "$in", "$filter", "$map",
		"$cond", "$ifNull", "$and", "$or", "$not", "$cmp", "$eq", "$ne", "$gt", "$lte", "$type", "$isArray", "$concat",
		"$setIsSubset", "$mergeObjects", "$objectToArray", "$toLong", "$let", "array", "doc", "$literal",
		"$anyElementTrue"); name {
	case "$subtract", "$arrayElemAt", "$in", "$cmp", "$eq", "$ne", "$gt", "$lte", "$setIsSubset":
		return bson.D{{Key: name, Value: list(2)}}
	case "$slice":
		return bson.D{{Key: name, Value: bson.A{sub(), pick[any](t, "n", int32(1), int32(-1), int32(0), int32(2))}}}
	case "$size", "$not", "$type", "$isArray", "$objectToArray", "$toLong", "$anyElementTrue":
		return bson.D{{Key: name, Value: list(1)}}
	case "$filter":
		return bson.D{{Key: name, Value: bson.D{{Key: "input", Value: sub()}, {Key: "cond", Value: pick[any](t, "cond", sub(), "$$this", "$$this.b")}}}}
	case "$map":
		return bson.D{{Key: name, Value: bson.D{{Key: "input", Value: sub()}, {Key: "as", Value: "e"}, {Key: "in", Value: pick[any](t, "in", sub(), "$$e", "$$e.b")}}}}
	case "$let":
		return bson.D{{Key: name, Value: bson.D{{Key: "vars", Value: bson.D{{Key: "v", Value: sub()}}}, {Key: "in", Value: bson.A{"$$v", "$$v.b"}}}}}
	case "$literal":
		return bson.D{{Key: name, Value: scalar(t)}}
	case "array":
		return list(2)
	case "doc":
		return bson.D{{Key: "b", Value: sub()}, {Key: "c", Value: sub()}}
	case "$cond":
		return bson.D{{Key: name, Value: list(3)}}
	default:
		return bson.D{{Key: name, Value: list(rapid.IntRange(1, 3).Draw(t, "operands"))}}
	}
}

func stageOf(t *rapid.T, updating bool, documents []any) bson.D {
	stages := []string{"$set", "$unset", "$project", "$replaceWith"}
	if !updating {
		stages = append(stages, "$match", "$sort", "$limit", "$skip")
	}
	name := pick(t, "stage", stages...)
	var v any
	switch name {
	case "$set":
		d := bson.D{}
		for range rapid.IntRange(1, 2).Draw(t, "fields") {
			d = append(d, bson.E{Key: path(t), Value: expression(t, 2)})
		}
		v = d
	case "$unset":
		v = pick[any](t, "unset", "a", "a.b", bson.A{"a", "b"}, "b.c")
	case "$project":
		d := projection(t)
		if len(d) == 0 || rapid.Bool().Draw(t, "computed") {
			d = append(d, bson.E{Key: pick(t, "field", "d", "a", "d.e"), Value: expression(t, 1)})
		}
		v = d
	case "$replaceWith":
		v = bson.D{{Key: "$mergeObjects", Value: bson.A{pick[any](t, "root", bson.D{{Key: "k", Value: expression(t, 1)}}, "$a"), bson.D{{Key: "z", Value: expression(t, 1)}}}}}
	case "$match":
		v = filter(t, 1)
	case "$sort":
		v = order(t, documents)
	case "$limit", "$skip":
		v = pick[any](t, "n", int32(1), int32(2), int32(0), int32(-1), "x")
	}
	return bson.D{{Key: name, Value: v}}
}

func pipeline(t *rapid.T, updating bool, documents []any) bson.A {
	all := bson.A{}
	for range rapid.IntRange(1, 2).Draw(t, "stages") {
		all = append(all, stageOf(t, updating, documents))
	}
	return all
}
