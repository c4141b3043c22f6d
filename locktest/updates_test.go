package locktest_test

import (
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// updateCase is an update of one document.
type updateCase struct {
	document d
	update   any
	filters  []any // the array filters
}

func of(name string, path string, operand any) d { return op(name, d{{path, operand}}) }

// computed is a pipeline that sets r.
func computed(expression any) a { return a{op("$set", d{{"r", expression}})} }

var (
	numbers = d{{"i", 1}, {"l", int64(2)}, {"f", 2.5}, {"dec", decimal("2.5")}, {"big", int32(math.MaxInt32)}, {"huge", int64(math.MaxInt64)}}
	arrays  = d{{"list", a{3, 1, 2}}, {"docs", a{d{{"k", 1}, {"v", 5}}, d{{"k", 2}, {"v", 6}}, d{{"k", 1}, {"v", 7}}}}, {"empty", a{}}}
	nested  = d{{"x", d{{"y", d{{"z", 1}}}}}, {"s", "text"}, {"null", nil}, {"t", bson.DateTime(1_600_000_000_000)}, {"b", true}}
)

var updates = []updateCase{
	{nested, of("$set", "x.y.z", 2), nil}, {nested, of("$set", "x.y.w", d{{"a", 1}}), nil}, {nested, of("$set", "new.deep.er", 1), nil}, {nested, of("$set", "s.t", 1), nil},
	{nested, of("$set", "null.t", 1), nil}, {nested, of("$set", "_id", 2), nil}, {nested, of("$set", "_id", 1), nil}, {nested, op("$set", d{{"x", 1}, {"x.y", 2}}), nil},
	{nested, d{{"$set", d{{"x.y", 1}}}, {"$unset", d{{"x", ""}}}}, nil}, {nested, of("$unset", "x.y", ""), nil}, {nested, of("$unset", "no.where", ""), nil}, {nested, of("$unset", "s.t", ""), nil},
	{nested, of("$setOnInsert", "q", 1), nil}, {nested, of("$rename", "x.y", "w.v"), nil}, {nested, of("$rename", "nowhere", "w"), nil}, {nested, of("$rename", "s", "null"), nil},
	{nested, op("$set", d{{"c", 1}, {"b2", 2}, {"a", 3}}), nil}, {nested, d{{"$nonsense", d{{"a", 1}}}}, nil}, {nested, of("$set", "s", bson.Regex{Pattern: "a"}), nil},

	{numbers, of("$inc", "i", 1), nil}, {numbers, of("$inc", "i", int64(1)), nil}, {numbers, of("$inc", "l", -3), nil}, {numbers, of("$inc", "f", 1), nil}, {numbers, of("$inc", "i", 0.5), nil},
	{numbers, of("$inc", "dec", 1), nil}, {numbers, of("$inc", "big", 1), nil}, {numbers, of("$inc", "new", 4), nil}, {nested, of("$inc", "s", 1), nil}, {numbers, of("$inc", "i", "x"), nil}, {nested, of("$inc", "null", 1), nil},
	{numbers, of("$inc", "huge", 1), nil}, {numbers, of("$mul", "huge", 2), nil}, {numbers, of("$inc", "dec", 0.1), nil}, {numbers, of("$mul", "dec", 2.0), nil}, {numbers, of("$inc", "f", decimal("1")), nil},
	{numbers, of("$mul", "i", 3), nil}, {numbers, of("$mul", "f", 2), nil}, {numbers, of("$mul", "big", 2), nil}, {numbers, of("$mul", "new", int64(4)), nil}, {numbers, of("$mul", "dec", 2), nil},
	{numbers, of("$min", "i", 0), nil}, {numbers, of("$min", "i", 3), nil}, {numbers, of("$max", "i", 3.5), nil}, {numbers, of("$max", "new", 1), nil}, {numbers, of("$max", "i", "text"), nil}, {numbers, of("$min", "i", nil), nil},

	{arrays, of("$push", "list", 9), nil}, {arrays, of("$push", "new", 9), nil}, {arrays, of("$push", "list", op("$each", a{8, 9})), nil}, {arrays, of("$push", "list", d{{"$each", a{8, 9}}, {"$slice", -3}}), nil},
	{arrays, of("$push", "list", d{{"$each", a{8}}, {"$slice", 2}}), nil}, {arrays, of("$push", "list", d{{"$each", a{8}}, {"$position", 1}}), nil}, {arrays, of("$push", "list", d{{"$each", a{8}}, {"$position", -1}}), nil},
	{arrays, of("$push", "list", d{{"$each", a{0}}, {"$sort", 1}}), nil}, {arrays, of("$push", "docs", d{{"$each", a{}}, {"$sort", d{{"v", -1}}}}), nil}, {arrays, of("$push", "list", a{1, 2}), nil}, {nested, of("$push", "s", 1), nil},
	{arrays, of("$push", "list", d{{"$each", a{}}, {"$slice", 0}}), nil}, {arrays, of("$push", "list", op("$each", 1)), nil}, {arrays, of("$push", "docs.0.sub", 1), nil},
	{arrays, of("$addToSet", "list", 1), nil}, {arrays, of("$addToSet", "list", 1.0), nil}, {arrays, of("$addToSet", "list", op("$each", a{1, 4, 4})), nil}, {arrays, of("$addToSet", "new", 1), nil},
	{arrays, of("$pull", "list", 1), nil}, {arrays, of("$pull", "list", op("$gte", 2)), nil}, {arrays, of("$pull", "docs", d{{"k", 1}}), nil}, {arrays, of("$pull", "docs", d{{"k", 1}, {"v", op("$gt", 5)}}), nil},
	{arrays, of("$pull", "docs", d{{"k", op("$in", a{1, 2})}, {"w", nil}}), nil}, {arrays, of("$pull", "nowhere", 1), nil}, {nested, of("$pull", "s", 1), nil}, {arrays, of("$pull", "list", op("$in", a{1, 3})), nil},
	{arrays, of("$pullAll", "list", a{1, 3}), nil}, {arrays, of("$pop", "list", 1), nil}, {arrays, of("$pop", "list", -1), nil}, {arrays, of("$pop", "empty", 1), nil}, {arrays, of("$pop", "nowhere", 1), nil},
	{arrays, of("$push", "list", d{{"$each", a{0}}, {"$sort", "up"}}), nil}, {arrays, of("$push", "list", d{{"$each", a{0}}, {"$sort", 2}}), nil}, {arrays, of("$push", "list", d{{"$each", a{0}}, {"$slice", "x"}}), nil},
	{d{{"list", a{a{1}, 1, a{1, 2}}}}, of("$pull", "list", 1), nil}, {d{{"list", a{a{1}, 1, a{1, 2}}}}, of("$pull", "list", op("$gte", 1)), nil}, {d{{"list", a{a{1}, 1, a{1, 2}}}}, of("$pull", "list", a{1}), nil},
	{nested, of("$pull", "s.t", 1), nil}, {nested, of("$pop", "s.t", 1), nil}, {arrays, of("$pop", "docs.k", 1), nil}, {arrays, of("$rename", "list.0", "x"), nil}, {nested, of("$rename", "s", "x.y.z.w"), nil}, {arrays, of("$rename", "docs.$[].k", "x"), nil},
	{nested, of("$set", "x..y", 1), nil}, {nested, of("$set", "", 1), nil}, {nested, of("$set", "x.$y", 1), nil}, {nested, op("$nonsense", d{}), nil}, {arrays, d{{"$set", d{{"list.$[]", 1}, {"list.0", 2}}}}, nil}, {nested, d{{"y", 1}, {"$set", d{{"z", 1}}}}, nil},
	{arrays, of("$set", "list.1", 9), nil}, {arrays, of("$set", "list.4", 9), nil}, {arrays, of("$set", "docs.0.k", 9), nil}, {arrays, of("$set", "docs.k", 9), nil}, {arrays, of("$unset", "list.1", ""), nil}, {arrays, of("$unset", "docs.1.v", ""), nil},
	{arrays, of("$set", "list.$[]", 0), nil}, {arrays, of("$inc", "docs.$[].v", 1), nil}, {arrays, of("$set", "docs.$[one].v", 0), []any{d{{"one.k", 1}}}}, {arrays, of("$set", "list.$[big]", 0), []any{d{{"big", op("$gte", 2)}}}},
	{arrays, of("$set", "docs.$[no].v", 0), []any{d{{"no.k", 99}}}}, {arrays, of("$set", "docs.$[no].v", 0), []any{d{{"other.k", 1}}}}, {arrays, of("$set", "docs.$[one].v", 0), []any{d{{"one.k", 1}, {"one.v", 7}}}},
	{arrays, d{{"$set", d{{"docs.$[one].k", 3}}}, {"$unset", d{{"docs.$[one].v", ""}}}}, []any{d{{"one.k", 1}}}}, {arrays, of("$set", "new.$[]", 0), nil},

	{nested, computed(op("$add", a{1, 2, 0.5})), nil}, {nested, computed(op("$add", a{"$t", 1000})), nil}, {nested, computed(op("$add", a{"$null", 1})), nil}, {nested, computed(op("$add", a{"$s", 1})), nil}, {numbers, computed(op("$add", a{"$big", 1})), nil}, {numbers, computed(op("$add", a{"$huge", 1})), nil},
	{numbers, computed(op("$add", a{"$dec", 1})), nil}, {nested, computed(op("$subtract", a{"$t", 1000})), nil}, {nested, computed(op("$subtract", a{"$t", "$t"})), nil}, {numbers, computed(op("$subtract", a{"$i", "$f"})), nil}, {numbers, computed(op("$multiply", a{"$i", "$l", 3})), nil},
	{numbers, computed(op("$max", a{"$i", "$f", nil, "$nowhere"})), nil}, {numbers, computed(op("$min", a{"$i", "$f", nil})), nil}, {arrays, computed(op("$max", "$list")), nil}, {nested, computed(op("$max", a{nil, "$nowhere"})), nil}, {arrays, computed(op("$sum", "$list")), nil},
	{nested, computed(op("$toLong", "$t")), nil}, {numbers, computed(op("$toLong", "$f")), nil}, {numbers, computed(op("$toLong", "$dec")), nil}, {nested, computed(op("$toLong", "12")), nil}, {nested, computed(op("$toLong", "$s")), nil}, {nested, computed(op("$toLong", "$b")), nil}, {nested, computed(op("$toLong", nil)), nil},
	{nested, computed(op("$cond", a{"$b", "yes", "no"})), nil}, {nested, computed(op("$cond", d{{"if", "$null"}, {"then", 1}, {"else", "$x.y"}})), nil}, {nested, computed(op("$ifNull", a{"$null", "$nowhere", "$s"})), nil}, {nested, computed(op("$and", a{1, "$s", a{}})), nil}, {nested, computed(op("$or", a{0, nil, "$nowhere"})), nil}, {nested, computed(op("$not", a{"$null"})), nil},
	{nested, computed(op("$switch", d{{"branches", a{d{{"case", false}, {"then", 1}}, d{{"case", "$b"}, {"then", 2}}}}, {"default", 3}})), nil},
	{nested, computed(op("$add", a{"$t", decimal("1.6")})), nil}, {nested, computed(op("$subtract", a{"$t", 0.4})), nil}, {numbers, computed(op("$add", a{"$dec", 0.1})), nil}, {nested, computed(op("$add", a{nil, op("$add", a{"$s"})})), nil}, {nested, computed(op("$ifNull", a{"$null"})), nil},
	{nested, computed(op("$cond", a{true, 1, op("$nonsense", 1)})), nil}, {nested, computed(op("$cond", d{{"if", true}, {"then", 1}})), nil}, {nested, computed(op("$filter", d{{"input", a{1}}, {"cond", true}, {"what", 1}})), nil}, {nested, computed(d{{"$add", a{1, 2}}, {"x", 1}}), nil}, {nested, computed(d{{"x", 1}, {"$add", a{1, 2}}}), nil},
	{nested, computed("$"), nil}, {nested, computed("$x..y"), nil}, {nested, computed("$$"), nil}, {d{{"list", a{a{d{{"k", 1}}}, d{{"k", 2}}}}}, computed("$list.k"), nil}, {nested, a{op("$unset", 1)}, nil}, {nested, a{op("$unset", a{})}, nil}, {nested, a{op("$set", d{{"new.deep", "$nowhere"}})}, nil}, {nested, a{op("$set", d{{"x", 1}, {"x.y", 2}})}, nil},
	{arrays, computed(op("$slice", a{"$list", 1, int64(math.MaxInt64)})), nil}, {nested, computed(op("$cmp", a{"$t", "$s"})), nil}, {nested, computed(op("$eq", a{"$nowhere", nil})), nil}, {nested, computed(op("$lt", a{"$nowhere", nil})), nil}, {numbers, computed(op("$gte", a{"$dec", "$f"})), nil},
	{nested, computed(op("$type", "$nowhere")), nil}, {nested, computed(op("$type", "$t")), nil}, {nested, computed(op("$concat", a{"$s", "-", "x"})), nil}, {nested, computed(op("$concat", a{"$s", nil})), nil}, {nested, computed(op("$literal", "$s")), nil}, {nested, computed(op("$regexMatch", d{{"input", "$s"}, {"regex", "^(te|x)"}})), nil}, {nested, computed(op("$regexMatch", d{{"input", "$nowhere"}, {"regex", "x"}})), nil},
	{arrays, computed(op("$size", "$list")), nil}, {nested, computed(op("$size", "$s")), nil}, {arrays, computed(op("$arrayElemAt", a{"$list", 1})), nil}, {arrays, computed(op("$arrayElemAt", a{"$list", -1})), nil}, {arrays, computed(op("$arrayElemAt", a{"$list", 9})), nil}, {arrays, computed(op("$arrayElemAt", a{"$nowhere", 0})), nil}, {arrays, computed("$docs.k"), nil},
	{arrays, computed(op("$concatArrays", a{"$list", a{9}})), nil}, {arrays, computed(op("$concatArrays", a{"$list", nil})), nil}, {arrays, computed(op("$slice", a{"$list", 2})), nil}, {arrays, computed(op("$slice", a{"$list", -2})), nil}, {arrays, computed(op("$slice", a{"$list", 1, 1})), nil}, {arrays, computed(op("$in", a{1, "$list"})), nil}, {nested, computed(op("$in", a{1, "$s"})), nil},
	{arrays, computed(op("$filter", d{{"input", "$docs"}, {"as", "e"}, {"cond", op("$gt", a{"$$e.v", 5})}})), nil}, {arrays, computed(op("$filter", d{{"input", "$nowhere"}, {"cond", true}})), nil}, {arrays, computed(op("$map", d{{"input", "$docs"}, {"as", "e"}, {"in", op("$mergeObjects", a{"$$e", d{{"v", "$$REMOVE"}, {"w", 1}}})}})), nil}, {arrays, computed(op("$map", d{{"input", "$list"}, {"in", op("$add", a{"$$this", 1})}})), nil},
	{arrays, computed(op("$setIsSubset", a{a{1, 2}, "$list"})), nil}, {arrays, computed(op("$setIsSubset", a{a{1, 9}, "$list"})), nil}, {arrays, computed(op("$allElementsTrue", a{a{1, true, 0}})), nil}, {arrays, computed(op("$anyElementTrue", a{a{0, nil, 1}})), nil}, {arrays, computed(op("$let", d{{"vars", d{{"x", "$list"}, {"y", 2}}}, {"in", op("$concatArrays", a{"$$x", a{"$$y"}})}})), nil},
	{nested, computed(op("$mergeObjects", a{"$x", d{{"y", 1}, {"k", "$nowhere"}}, nil})), nil}, {nested, computed(op("$mergeObjects", a{"$s"})), nil}, {nested, computed(op("$objectToArray", "$x")), nil}, {nested, computed(op("$arrayToObject", a{a{d{{"k", "p"}, {"v", 1}}}})), nil}, {nested, computed(op("$arrayToObject", a{a{a{"p", 1}, a{"q", 2}}})), nil},
	{nested, computed(a{"$s", "$nowhere", d{{"k", "$b"}}}), nil}, {nested, a{op("$set", d{{"x.y.q", "$s"}, {"x.y.z", "$$REMOVE"}})}, nil}, {nested, a{op("$set", d{{"x", d{{"q", 1}}}})}, nil}, {nested, a{op("$unset", "x.y")}, nil}, {nested, a{op("$unset", a{"x", "s"})}, nil},
	{arrays, a{op("$set", d{{"docs.w", 1}})}, nil}, {nested, a{op("$set", d{{"s", 1}}), op("$set", d{{"u", "$s"}})}, nil}, {nested, a{op("$replaceWith", d{{"_id", 1}, {"only", "$s"}})}, nil}, {nested, a{op("$replaceWith", d{{"only", "$s"}})}, nil}, {nested, a{op("$match", d{})}, nil}, {nested, computed(op("$nonsense", 1)), nil}, {nested, computed("$$nonsense"), nil},
}
