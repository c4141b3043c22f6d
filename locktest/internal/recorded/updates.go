package recorded

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

func updatePath(t *rapid.T) string {
	return pick(t, "update path", "a", "a", "b", "c", "a.b", "a.b", "a.c", "b.b", "a.0", "a.1", "a.5", "a.0.b", "a.b.c",
		"a.b.0", "d", "d.e", "a.$[]", "a.$[].b", "a.$[i]", "a.$[i].b", "_id", "a..b", "", "$x", "a.$b", "b.$[]")
}

func update(t *rapid.T) any {
	if rapid.IntRange(0, 7).Draw(t, "replacement") == 0 {
		d := document(t, 2, "a", "b")
		if rapid.IntRange(0, 4).Draw(t, "id") == 0 {
			d = append(d, bson.E{Key: "_id", Value: pick[any](t, "id", int32(1), int32(9))})
		}
		return d
	}
	d := bson.D{}
	for range rapid.IntRange(1, 2).Draw(t, "operators") {
		name := pick(t, "update operator", "$set", "$set", "$setOnInsert", "$unset", "$inc", "$mul", "$min", "$max", "$rename", "$push", "$addToSet", "$pull", "$pullAll", "$pop", "$nope")
		fields := bson.D{}
		for range rapid.IntRange(0, 2).Draw(t, "fields") {
			var v any
			switch name {
			case "$unset":
				v = ""
			case "$rename":
				v = pick[any](t, "to", "b", "c", "d", "a.b", "d.e", "a", "a.0", int32(1), "")
			case "$push":
				if v = anyValue(t, 1); rapid.Bool().Draw(t, "each") {
					each := bson.D{{Key: "$each", Value: append(values(t, 1), anyValue(t, 1))}}
					for _, m := range []string{"$slice", "$position", "$sort"} {
						if rapid.IntRange(0, 2).Draw(t, "modifier") == 0 {
							of := []any{int32(0), int32(1), int32(-1), int32(2), int32(-2), 1.5, "x"}
							if m == "$sort" {
								of = []any{int32(1), int32(-1), bson.D{{Key: "b", Value: int32(1)}}, bson.D{{Key: "b", Value: int32(-1)}}, "x", int32(2)}
							}
							each = append(each, bson.E{Key: m, Value: pick(t, m, of...)})
						}
					}
					v = each
				}
			case "$addToSet":
				if v = anyValue(t, 1); rapid.Bool().Draw(t, "each") {
					v = bson.D{{Key: "$each", Value: values(t, 2)}}
				}
			case "$pull":
				switch rapid.IntRange(0, 2).Draw(t, "pull") {
				case 0:
					v = anyValue(t, 2)
				case 1:
					v = condition(t, 0)
				default:
					v = filter(t, 0, "b", "c")
				}
			case "$pullAll":
				v = values(t, 2)
			case "$pop":
				v = pick[any](t, "end", int32(1), int32(-1), 1.0, int32(0), "x")
			default:
				v = anyValue(t, 2)
			}
			fields = append(fields, bson.E{Key: updatePath(t), Value: v})
		}
		if i := slices.IndexFunc(d, func(e bson.E) bool { return e.Key == name }); i >= 0 {
			d[i].Value = append(d[i].Value.(bson.D), fields...)
		} else {
			d = append(d, bson.E{Key: name, Value: fields})
		}
	}
	return d
}
