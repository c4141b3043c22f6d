package recorded

import (
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// drawMore draws the kinds that are younger than MongoDB 5.0.7's recordings.
func (a *attempt) drawMore(t *rapid.T, kind string) {
	switch kind {
	case "replacement":
		a.command = replacing(t)
	case "folding":
		a.command = computing(t, func() any { return constant(t, 3) })
	case "number":
		a.documents = numbered(t, numbers)
		a.command = calculating(t, numbers)
	case "date":
		a.documents = numbered(t, dates)
		a.command = calculating(t, dates)
	case "name":
		a.documents = []any{bson.D{{Key: "_id", Value: int32(1)}, {Key: "a", Value: bson.D{{Key: name(t), Value: int32(1)}}}}}
		a.command = naming(t)
	}
}

func d(key string, v any) bson.D { return bson.D{e(key, v)} }
func e(key string, v any) bson.E { return bson.E{Key: key, Value: v} }

// replacing is a command that replaces a document, with the _id at any place.
func replacing(t *rapid.T) bson.D {
	by := document(t, 1, rapid.Permutation([]string{"a", "b", "c"}).Draw(t, "order")...)
	if at := rapid.IntRange(-2, len(by)).Draw(t, "at"); at >= 0 {
		id := e("_id", pick[any](t, "id", int32(1), 1.0, int64(1), int32(9), nil, bson.A{}))
		by = append(append(append(bson.D{}, by[:at]...), id), by[at:]...)
	}
	filter := bson.D{pick(t, "filter", e("_id", int32(1)), e("_id", int32(9)), e("_id", d("$in", bson.A{int32(9)})), e("_id", 1.0), e("none", int32(1)))}
	upsert := e("upsert", rapid.Bool().Draw(t, "upsert"))
	switch pick(t, "command", "update", "findAndModify", "stage", "insert") {
	case "update":
		return updating(bson.D{e("q", filter), e("u", by), upsert})
	case "findAndModify":
		return bson.D{e("findAndModify", "c"), e("query", filter), e("update", by), e("new", rapid.Bool().Draw(t, "new")), upsert}
	case "stage":
		return updating(bson.D{e("q", filter), e("u", bson.A{d("$replaceWith", d("$literal", by))}), upsert})
	default:
		return bson.D{e("insert", "c"), e("documents", bson.A{by})}
	}
}

func updating(statement bson.D) bson.D {
	return bson.D{e("update", "c"), e("updates", bson.A{statement})}
}

// computing is a command that evaluates an expression, in each place that takes one.
func computing(t *rapid.T, expression func() any) bson.D {
	set := bson.A{d("$set", d("r", expression()))}
	filter := d("$expr", expression())
	switch pick(t, "place", "project", "set", "match", "find", "filter", "update", "modify", "delete") {
	case "project":
		return project(expression())
	case "set":
		return aggregating(set...)
	case "match":
		return aggregating(d("$match", filter))
	case "find":
		return bson.D{e("find", "c"), e("projection", d("r", expression()))}
	case "filter":
		return bson.D{e("find", "c"), e("filter", filter)}
	case "update":
		return updating(bson.D{e("q", bson.D{}), e("u", set), e("multi", true)})
	case "modify":
		return bson.D{e("findAndModify", "c"), e("query", filter), e("sort", d("_id", int32(1))), e("update", set), e("fields", d("r", expression()))}
	default:
		return bson.D{e("delete", "c"), e("deletes", bson.A{bson.D{e("q", filter), e("limit", int32(0))}})}
	}
}

// constant is an expression of which much is constant, also where it isn't needed.
func constant(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
		return pick[any](t, "operand", "$a", "$b", "$$ROOT", "$$NOW", int32(1), "x", nil, true, false, bson.A{}, bson.A{int32(1)}, bson.D{}, 1.5, bson.DateTime(5), "$$REMOVE", "$missing")
	}
	sub := func() any { return constant(t, depth-1) }
	operator := pick(t, "operator", "$add", "$multiply", "$subtract", "$concat", "$concatArrays", "$and", "$or", "$cond", "$switch", "$let", "$filter", "$map",
		"$setIsSubset", "$setUnion", "$ifNull", "$size", "$in", "$max", "$mergeObjects", "$not", "$eq", "$toLong", "$arrayElemAt", "array", "object")
	switch operator {
	case "$cond", "array":
		list := bson.A{sub(), sub(), sub()}
		if operator == "array" {
			return list
		}
		return d(operator, list)
	case "$switch":
		return d(operator, bson.D{e("branches", bson.A{bson.D{e("case", sub()), e("then", sub())}}), e("default", sub())})
	case "$let":
		return d(operator, bson.D{e("vars", d("v", sub())), e("in", pick[any](t, "in", sub(), d("$add", bson.A{"$$v", int32(1), sub()})))})
	case "$filter":
		return d(operator, bson.D{e("input", sub()), e("cond", pick[any](t, "test", sub(), "$$this"))})
	case "$map":
		return d(operator, bson.D{e("input", sub()), e("in", pick[any](t, "in", sub(), "$$this"))})
	case "$size", "$not", "$toLong":
		return d(operator, sub())
	case "$subtract", "$setIsSubset", "$in", "$eq", "$arrayElemAt":
		return d(operator, bson.A{sub(), sub()})
	case "object":
		return bson.D{e("k", sub()), e("l", sub())}
	default:
		return d(operator, bson.A{sub(), sub(), sub()})
	}
}

var numbers = []any{
	int32(0), int32(1), int32(-3), int32(math.MaxInt32), int64(2), int64(1<<53 + 1), int64(math.MaxInt64), int64(math.MinInt64), 0.1, 2.5, -2.5, 1e300, 1e-300, 0x1p63,
	math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), dec("0"), dec("-0"), dec("0.1"), dec("1.10"), dec("2.5"), dec("3E+2"), dec("1E-10"), dec("NaN"), dec("Infinity"),
	dec("-Infinity"), dec("9007199254740993"), dec("1234567890123456789012345678901234"), dec("9.999999999999999999999999999999999E+6144"), dec("1E-6176"),
}

var dates = []any{
	bson.DateTime(0), bson.DateTime(-5), bson.DateTime(1700000000123), bson.DateTime(math.MaxInt64), bson.DateTime(math.MinInt64), int32(1), int32(-7), int64(1 << 40), int64(math.MaxInt64),
	0.4, 0.5, 1.5, 2.5, -0.5, -2.5, 1e30, math.NaN(), dec("0.5"), dec("1.5"), dec("2.4"), dec("-2.5"), dec("1E+30"), nil, "x", bson.Timestamp{T: 1, I: 1},
}

func numbered(t *rapid.T, of []any) (documents []any) {
	for i := range rapid.IntRange(1, 2).Draw(t, "documents") {
		documents = append(documents, bson.D{e("_id", int32(i)), e("a", pick(t, "a", of...)), e("b", pick(t, "b", of...))})
	}
	return documents
}

// calculating is a command that computes with numbers or dates, or compares them.
func calculating(t *rapid.T, of []any) bson.D {
	operand := func() any { return pick(t, "operand", append([]any{"$a", "$b"}, of...)...) }
	v := func() any { return pick(t, "value", of...) }
	switch pick(t, "command", "expression", "expression", "expression", "update", "filter") {
	case "filter":
		return bson.D{e("find", "c"), e("filter", d("a", d(pick(t, "test", "$gt", "$gte", "$lt", "$lte", "$eq", "$ne"), v()))), e("sort", bson.D{e("b", int32(-1)), e("_id", int32(1))})}
	case "update":
		return updating(bson.D{e("q", bson.D{}), e("u", d(pick(t, "operator", "$inc", "$mul", "$min", "$max"), d("a", v()))), e("multi", true)})
	}
	return computing(t, func() any {
		operands := bson.A{operand(), operand()}
		switch operator := pick(t, "operator", "$add", "$subtract", "$multiply", "$sum", "$max", "$min", "$cmp", "$lt", "$toLong", "three"); operator {
		case "$toLong":
			return d(operator, operands[0])
		case "three":
			return d(pick(t, "operator", "$add", "$multiply", "$sum"), append(operands, operand()))
		default:
			return d(operator, operands)
		}
	})
}
