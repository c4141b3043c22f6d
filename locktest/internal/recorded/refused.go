package recorded

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Refused are commands that a server refuses as a whole, or of which it refuses a
// statement, on one document.
func Refused() (all []Recording, err error) {
	one, list := int32(1), bson.A{}
	u := func(statements ...any) bson.D {
		return bson.D{e("update", "c"), e("updates", append(bson.A{}, statements...))}
	}
	s := func(q, u any, more ...bson.E) bson.D { return append(bson.D{e("q", q), e("u", u)}, more...) }
	modify := func(more ...bson.E) bson.D {
		return append(bson.D{e("findAndModify", "c"), e("query", bson.D{})}, more...)
	}
	set := d("$set", d("a", one))
	document, err := bson.Marshal(bson.D{e("_id", one), e("a", one), e("list", bson.A{one})})
	for i, command := range []bson.D{
		{e("nonsense", "c")}, {e("find", one)}, {e("find", "")}, {e("find", "c"), e("nonsense", one)}, {e("find", "c"), e("filter", one)}, {e("find", "c"), e("sort", one)},
		{e("find", "c"), e("limit", int32(-1))}, {e("find", "c"), e("skip", "x")}, {e("find", "c"), e("batchSize", int32(-1))}, {e("find", "c"), e("projection", one)},
		{e("find", "c"), e("maxTimeMS", int32(-1))}, {e("find", "c"), e("hint", d("nope", one))}, {e("find", "c"), e("filter", d("$expr", d("$nope", one)))},
		{e("insert", "c")}, {e("insert", "c"), e("documents", list)}, {e("insert", "c"), e("documents", one)}, {e("insert", "c"), e("documents", bson.A{one})},
		{e("insert", "c"), e("documents", bson.A{d("_id", one)})}, {e("insert", "c"), e("documents", bson.A{d("_id", one), d("_id", int32(2))})},
		{e("insert", "c"), e("documents", bson.A{d("_id", one), d("_id", int32(2))}), e("ordered", false)}, {e("insert", "c"), e("documents", bson.A{d("_id", list)})},
		{e("insert", "c"), e("documents", bson.A{d("_id", bson.Regex{Pattern: "x"})})}, {e("insert", "c$"), e("documents", bson.A{d("a", one)})},
		{e("update", "c")}, u(), u(one), u(d("q", bson.D{})), u(d("u", set)), u(s(one, set)), u(s(bson.D{}, one)), u(s(bson.D{}, "x")), u(s(bson.D{}, set, e("nonsense", one))),
		u(s(bson.D{}, bson.D{e("a", one), e("$set", d("a", one))})), u(s(bson.D{}, bson.D{e("$set", d("a", one)), e("a", one)})), u(s(bson.D{}, d("a", int32(2)), e("multi", true))),
		u(s(bson.D{}, d("$set", one))), u(s(bson.D{}, d("$set", d("_id", int32(2))))), u(s(bson.D{}, d("$inc", d("_id", one)))), u(s(bson.D{}, d("$unset", d("_id", "")))),
		u(s(bson.D{}, d("$set", d("a.b", one)))), u(s(bson.D{}, d("$push", d("a", one)))), u(s(bson.D{}, d("$set", d("a.$[]", one)))), u(s(bson.D{}, d("$set", d("list.$[i]", one)))),
		u(s(bson.D{}, d("$set", d("list.$[i]", one)), e("arrayFilters", bson.A{d("i", one), d("i", one)}))), u(s(bson.D{}, set, e("arrayFilters", bson.A{d("i", one)}))),
		u(s(bson.D{}, d("$set", d("list.x", one)))), u(s(bson.D{}, d("$set", d("list.2000000", one)))), u(s(bson.D{}, d("$push", d("list", bson.D{e("$each", one)})))),
		u(s(bson.D{}, d("$push", d("list", bson.D{e("$each", list), e("$nope", one)})))), u(s(bson.D{}, d("$currentDate", d("at", "x")))), u(s(d("$expr", true), set, e("upsert", true))),
		u(s(bson.D{}, bson.A{d("$match", bson.D{})})), u(s(bson.D{}, bson.A{d("$nope", one)})), u(s(bson.D{}, bson.A{one})),
		u(s(bson.D{}, bson.A{bson.D{e("$set", d("a", one)), e("$unset", "b")}})),
		u(s(bson.D{}, bson.A{d("$set", one)})), u(s(bson.D{}, bson.A{d("$replaceRoot", bson.D{})})), u(s(bson.D{},
			bson.A{d("$replaceWith", one)})), u(s(bson.D{}, bson.A{d("$set", d("a", d("$nope", one)))})),
		u(s(bson.D{}, bson.A{d("$set", d("a", "$$nope"))})), u(s(bson.D{}, bson.A{d("$set", d("_id", int32(2)))})), u(s(bson.D{}, bson.A{d("$set", d("a", d("$toLong", "x")))})),
		u(s(d("_id", int32(2)), d("$set", d("a", one)), e("upsert", true)), s(d("_id", int32(3)), d("$set", d("_id", one)),
			e("upsert", true)), s(d("_id", int32(4)), set, e("upsert", true))),
		{e("delete", "c")}, {e("delete", "c"), e("deletes", list)}, {e("delete", "c"), e("deletes", bson.A{d("q",
			bson.D{})})}, {e("delete", "c"), e("deletes", bson.A{bson.D{e("q", bson.D{}), e("limit", int32(2))}})},
		{e("delete", "c"), e("deletes", bson.A{bson.D{e("q", d("$nope", one)), e("limit", one)}})}, {e("count", "c"),
			e("query", one)}, {e("count", "c"), e("skip", int32(-1))}, {e("count", "")},
		modify(), modify(e("remove", true), e("new", true)), modify(e("remove", true), e("update", set)), modify(e("remove",
			true), e("upsert", true)), modify(e("update", one)), modify(e("update", set), e("fields", one)),
		modify(e("update", set), e("sort", d("a", "x"))), modify(e("update", set), e("nonsense", one)), modify(e("update",
			set), e("fields", bson.D{e("a", one), e("b", int32(0))})), modify(e("update", d("$nope", one))),
		{e("aggregate", "c")}, {e("aggregate", "c"), e("pipeline", one), e("cursor", bson.D{})}, {e("aggregate", "c"),
			e("pipeline", list)}, aggregating(one), aggregating(bson.D{}), aggregating(d("$nope", one)),
		aggregating(bson.D{e("$match", bson.D{}), e("$limit", one)}), aggregating(d("$match", one)), aggregating(d("$match",
			d("a", d("$nope", one)))), aggregating(d("$sort", bson.D{})), aggregating(d("$sort", one)),
		aggregating(d("$sort", d("a", int32(2)))), aggregating(d("$sort", d("a", "x"))), aggregating(d("$count", "")),
		aggregating(d("$count", one)), aggregating(d("$count", "$x")), aggregating(d("$count", "a.b")),
		aggregating(d("$limit", 1.5)), aggregating(d("$skip", 1.5)), aggregating(d("$project", bson.D{})),
		aggregating(d("$project", one)), aggregating(d("$set", bson.D{})), aggregating(d("$set", d("a", bson.D{}))),
		aggregating(d("$project", d("a", bson.D{}))), aggregating(d("$unset", "")), aggregating(d("$unset", one)),
		aggregating(d("$replaceRoot", one)), aggregating(d("$replaceRoot", bson.D{e("newRoot", "$a"), e("x", one)})),
		{e("createIndexes", "c"), e("indexes", list)}, {e("createIndexes", "c"), e("indexes", bson.A{bson.D{e("key", bson.D{}), e("name", "x")}})},
		{e("createIndexes", "c"), e("indexes", bson.A{bson.D{e("key", d("a", int32(0))), e("name", "x")}})}, {e("createIndexes", "c"), e("indexes", bson.A{d("key", d("a", one))})},
	} {
		raw, err := bson.Marshal(command)
		if err != nil {
			return nil, err
		}
		all = append(all, Recording{Kind: "refused", N: i, Documents: []bson.Raw{document}, Command: raw})
	}
	return all, err
}
