package recorded

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// name is one that a field hardly has.
func name(t *rapid.T) string {
	return pick(t, "name", "$x", "$id", "$ref", "$", "$$x", "x.y", "x$", "", "$set", "$add", "x", "_id", "$[]")
}

// oddPath is a path with such names.
func oddPath(t *rapid.T) string {
	switch rapid.IntRange(0, 3).Draw(t, "path") {
	case 0:
		return name(t)
	case 1:
		return "a." + name(t)
	case 2:
		return name(t) + ".a"
	default:
		return "a." + name(t) + ".b"
	}
}

// naming is a command with odd names, in each place that takes one.
func naming(t *rapid.T) bson.D {
	one := int32(1)
	q := e("q", d("_id", one))
	upsert := e("upsert", rapid.Bool().Draw(t, "upsert"))
	find := func(more ...bson.E) bson.D { return append(d("find", "c"), more...) }
	stage := func(of bson.D) bson.D {
		if rapid.Bool().Draw(t, "updating") {
			return updating(bson.D{q, e("u", bson.A{of}), upsert})
		}
		return aggregating(of)
	}
	switch pick(t, "place", "insert", "id", "replace", "set", "value", "rename", "unset", "arrayFilter", "filter",
		"upsert", "projection", "sort", "expression", "variable", "key", "$set", "$unset", "$project", "$replaceWith") {
	case "insert":
		return bson.D{e("insert", "c"), e("documents", bson.A{bson.D{e("_id", int32(2)), e(name(t), one), e("b", d(name(t), one))}})}
	case "id":
		return bson.D{e("insert", "c"), e("documents", bson.A{d("_id", d(name(t), one))})}
	case "replace":
		return updating(bson.D{q, e("u", bson.D{e("b", one), e(name(t), one)}), upsert})
	case "set":
		return updating(bson.D{q, e("u", d(pick(t, "operator", "$set", "$inc", "$max", "$setOnInsert", "$push"), d(oddPath(t), one))), upsert})
	case "value":
		return updating(bson.D{q, e("u", d("$set", d("b", bson.D{e(name(t), one), e("c", bson.A{d(name(t), one)})}))), upsert})
	case "rename":
		return updating(bson.D{q, e("u", d("$rename", d("a", oddPath(t))))})
	case "unset":
		return updating(bson.D{q, e("u", d("$unset", d(oddPath(t), "")))})
	case "arrayFilter":
		return updating(bson.D{q, e("u", d("$set", d("a.$[i]", one))), e("arrayFilters", bson.A{d(pick(t, "identifier", "i", "i.a", "i.$x", "I", "j", "", "$i"), one)})})
	case "filter":
		return find(e("filter", d(oddPath(t), one)))
	case "upsert":
		return updating(bson.D{e("q", bson.D{e(oddPath(t), one), e("none", one)}), e("u", d("$set", d("b", one))), e("upsert", true)})
	case "projection":
		return find(e("projection", d(oddPath(t), pick[any](t, "flag", one, int32(0), "$a", d("$add", bson.A{one, one})))))
	case "sort":
		return find(e("sort", d(oddPath(t), pick[any](t, "direction", one, int32(0), "x", int32(2)))))
	case "expression":
		return project("$" + oddPath(t))
	case "variable":
		return project(d("$let", bson.D{e("vars", d(name(t), one)), e("in", "$$"+oddPath(t))}))
	case "key":
		return project(bson.D{e(name(t), one), e(name(t), "$a")})
	case "$set":
		return stage(d("$set", bson.D{e(oddPath(t), one), e("b", d(name(t), one))}))
	case "$unset":
		return stage(d("$unset", pick[any](t, "paths", oddPath(t), bson.A{oddPath(t), oddPath(t)}, bson.A{}, one)))
	case "$project":
		return stage(d("$project", bson.D{e(oddPath(t), pick[any](t, "flag", one, int32(0), "$a")), e("b", d(name(t), one))}))
	default:
		return stage(d("$replaceWith", pick[any](t, "by", "$a", "$"+oddPath(t), d(name(t), one), d("$literal", d(name(t), one)))))
	}
}
