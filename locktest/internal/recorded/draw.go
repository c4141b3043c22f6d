package recorded

import (
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// Kinds are the kinds of commands that are drawn. Those of MongoDB 5.0.7's recordings
// come first: what they draw must not change.
var Kinds = []string{
	"find", "count", "delete", "update", "modify", "upsert", "pipeline", "aggregate", "unique",
	"replacement", "folding", "number", "date", "name",
}

// Draw is the command with a number, always the same one.
func Draw(kind string, n int) (r Recording, err error) {
	a := attempts(kind).Example(n)
	r = Recording{Kind: kind, N: n}
	for _, d := range a.documents {
		raw, err := bson.Marshal(d)
		if err != nil {
			return r, err
		}
		r.Documents = append(r.Documents, raw)
	}
	if a.unique != nil {
		if r.Unique, err = bson.Marshal(a.unique); err != nil {
			return r, err
		}
	}
	r.Command, err = bson.Marshal(a.command)
	return r, err
}

// attempt is one command on a collection with documents.
type attempt struct {
	documents []any
	unique    bson.D
	command   bson.D
}

func attempts(kinds ...string) *rapid.Generator[attempt] {
	return rapid.Custom(func(t *rapid.T) attempt {
		var a attempt
		for i := range rapid.IntRange(0, 3).Draw(t, "documents") {
			d := append(bson.D{{Key: "_id", Value: int32(i + 1)}}, document(t, 2, "a", "b", "c")...)
			a.documents = append(a.documents, d)
		}
		switch kind := pick(t, "kind", kinds...); kind {
		case "find":
			a.command = bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: filter(t, 1)}, {Key: "sort", Value: order(t, a.documents)}}
			p := projection(t)
			if rapid.IntRange(0, 2).Draw(t, "computed") == 0 {
				p = append(p, bson.E{Key: pick(t, "field", "d", "a", "d.e"), Value: expression(t, 1)})
			}
			if len(p) > 0 {
				a.command = append(a.command, bson.E{Key: "projection", Value: p})
			}
			if rapid.IntRange(0, 3).Draw(t, "cut") == 0 {
				a.command = append(a.command, bson.E{Key: "skip", Value: pick[any](t, "skip", int32(0), int32(1), int32(9),
					int32(-1))}, bson.E{Key: "limit", Value: pick[any](t, "limit", int32(0), int32(1), int32(2))})
			}
		case "aggregate":
			a.command = bson.D{{Key: "aggregate", Value: "c"}, {Key: "pipeline", Value: pipeline(t, false, a.documents)}, {Key: "cursor", Value: bson.D{}}}
		case "count":
			a.command = bson.D{{Key: "count", Value: "c"}, {Key: "query", Value: filter(t, 1)}}
		case "delete":
			a.command = bson.D{{Key: "delete", Value: "c"}, {Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: filter(t, 1)}, {Key: "limit", Value: int32(0)}}}}}
		case "upsert":
			f := filter(t, 1)
			if rapid.Bool().Draw(t, "id") {
				f = append(bson.D{{Key: "_id", Value: pick[any](t, "id", int32(1), int32(9), "new")}}, f...)
			} else {
				f = append(f, bson.E{Key: "none", Value: int32(1)})
			}
			a.command = bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: f}, {Key: "u", Value: update(t)}, {Key: "upsert", Value: true}}}}}
		case "pipeline":
			a.command = bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{}},
				{Key: "u", Value: pipeline(t, true, a.documents)}, {Key: "multi", Value: true}}}}}
		case "update":
			s := bson.D{{Key: "q", Value: filter(t, 1)}, {Key: "u", Value: update(t)}, {Key: "multi", Value: rapid.Bool().Draw(t, "multi")}}
			switch {
			case s[2].Value == false: // which one of several is open
				s[0].Value = bson.D{{Key: "_id", Value: int32(1)}}
			case rapid.Bool().Draw(t, "all"):
				s[0].Value = bson.D{}
			}
			if strings.Contains(fmt.Sprint(s), "$[i]") {
				s = append(s, bson.E{Key: "arrayFilters", Value: bson.A{bson.D{{Key: pick(t, "filter", "i", "i.b"), Value: condition(t, 0)}}}})
			}
			a.command = bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{s}}}
		case "modify":
			a.command = bson.D{{Key: "findAndModify", Value: "c"}, {Key: "query", Value: filter(t, 1)}, {Key: "update",
				Value: update(t)}, {Key: "sort", Value: order(t, a.documents)}, {Key: "new", Value: true}}
		case "unique":
			a.unique = bson.D{{Key: pick(t, "key", "a", "b"), Value: int32(1)}}
			a.command = bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{append(bson.D{{Key: "_id", Value: int32(9)}}, document(t, 2, "a", "b", "c")...)}}}
		default:
			a.drawMore(t, kind)
		}
		return a
	})
}
