package locktest_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// This file compares the operators with the server's, on the same documents.

// d is a [bson.D] that is short to write.
type (
	d []e
	e struct {
		Key   string
		Value any
	}
	a = bson.A
)

func (of d) MarshalBSON() ([]byte, error) {
	all := bson.D{}
	for _, field := range of {
		all = append(all, bson.E(field))
	}
	return bson.Marshal(all)
}

func (of d) String() string {
	raw, err := bson.Marshal(of)
	if err != nil {
		return err.Error()
	}
	return bson.Raw(raw).String()
}

// op is {name: operand}.
func op(name string, operand any) d { return d{{name, operand}} }

func decimal(text string) bson.Decimal128 {
	v, err := bson.ParseDecimal128(text)
	if err != nil {
		panic(err)
	}
	return v
}

// samples are the documents that every filter, sort and projection meets.
var samples = []any{
	d{{"_id", 1}, {"n", 1}, {"s", "abc"}, {"list", a{1, 2, 3}}, {"at", bson.DateTime(1000)}},
	d{{"_id", 2}, {"n", int64(2)}, {"s", "ABC"}, {"list", a{}}, {"in", d{{"x", 1}, {"y", "z"}}}},
	d{{"_id", 3}, {"n", 2.5}, {"s", nil}, {"docs", a{d{{"x", 1}, {"y", 1}}, d{{"x", 2}, {"y", 5}}}}},
	d{{"_id", 4}, {"n", decimal("2.5")}, {"docs", a{d{{"x", 1}, {"y", 5}}, d{{"y", 2}}}}, {"flag", true}},
	d{{"_id", 5}, {"n", nil}, {"list", a{a{1}, "abc", nil}}, {"flag", false}},
	d{{"_id", 6}, {"n", "2"}, {"s", "line\n"}, {"in", d{{"x", a{1, 2}}}}, {"docs", d{{"x", 7}}}},
	d{{"_id", 7}, {"id", bson.Binary{Subtype: 4, Data: make([]byte, 16)}}, {"list", 2}, {"in", 3}},
	d{{"_id", "seven"}},
	d{{"_id", 8}, {"n", math.NaN()}, {"list", a{a{5}, 7, d{{"x", 3}}}}, {"s", bson.Regex{Pattern: "^a"}}, {"docs", a{d{{"x", 3}, {"y", 9}}, d{{"x", 0}, {"y", 8}}}}},
}

var filters = []any{
	d{}, d{{"_id", 1}}, d{{"_id", 1.0}}, d{{"_id", "seven"}}, d{{"_id", op("$in", a{1, 3, "seven"})}},
	d{{"n", 2}}, d{{"n", 2.5}}, d{{"n", nil}}, d{{"n", "2"}}, d{{"missing", nil}}, d{{"s", "abc"}},
	d{{"n", op("$gt", 1)}}, d{{"n", op("$gte", 2)}}, d{{"n", op("$lt", 2.5)}}, d{{"n", op("$lte", decimal("2.5"))}},
	d{{"n", op("$gt", "1")}}, d{{"n", op("$gte", nil)}}, d{{"n", op("$ne", 2)}}, d{{"n", op("$ne", nil)}},
	d{{"n", op("$in", a{1, nil})}}, d{{"n", op("$nin", a{1, nil})}}, d{{"n", op("$not", op("$gte", 2))}},
	d{{"n", d{{"$gt", 1}, {"$lt", 2.2}}}}, d{{"n", op("$exists", true)}}, d{{"n", op("$exists", false)}}, d{{"in.x", op("$exists", true)}},
	d{{"n", op("$type", "number")}}, d{{"n", op("$type", "int")}}, d{{"n", op("$type", a{"string", "null"})}}, d{{"list", op("$type", "array")}}, d{{"n", op("$type", 1)}},
	d{{"list", 2}}, d{{"list", a{1, 2, 3}}}, d{{"list", a{}}}, d{{"list.0", 1}}, d{{"list", op("$size", 3)}}, d{{"list", op("$size", 0)}},
	d{{"list", op("$all", a{1, 3})}}, d{{"list", op("$gt", 2)}}, d{{"list", nil}}, d{{"list", op("$elemMatch", d{{"$gt", 1}, {"$lt", 3}})}},
	d{{"list", op("$ne", 2)}}, d{{"list", op("$not", op("$elemMatch", op("$gt", 2)))}},
	d{{"docs.x", 1}}, d{{"docs.x", nil}}, d{{"docs.1.x", 2}}, d{{"docs.x", op("$gt", 1)}}, d{{"docs", op("$elemMatch", d{{"x", 1}, {"y", 5}})}},
	d{{"docs.x", 1}, {"docs.y", 5}}, d{{"docs", op("$elemMatch", d{{"x", op("$in", a{nil, 0})}})}}, d{{"docs", op("$elemMatch", d{{"$or", a{d{{"x", 2}}, d{{"y", 2}}}}})}},
	d{{"in", d{{"x", 1}, {"y", "z"}}}}, d{{"in", d{{"y", "z"}, {"x", 1}}}}, d{{"in.x", 1}}, d{{"in.x", nil}}, d{{"in.x.0", 1}},
	d{{"$or", a{d{{"n", 1}}, d{{"n", 2}}}}}, d{{"$and", a{d{{"n", op("$gt", 1)}}, d{{"n", op("$lt", 2.5)}}}}}, d{{"$nor", a{d{{"n", 1}}, d{{"s", nil}}}}},
	d{{"s", bson.Regex{Pattern: "^a"}}}, d{{"s", bson.Regex{Pattern: "^a", Options: "i"}}}, d{{"s", op("$regex", "c$")}}, d{{"s", d{{"$regex", "e$"}, {"$options", "i"}}}},
	d{{"s", op("$not", bson.Regex{Pattern: "^a"})}}, d{{"s", op("$in", a{bson.Regex{Pattern: "B"}, nil})}},
	d{{"flag", true}}, d{{"flag", op("$ne", true)}}, d{{"at", op("$lt", bson.DateTime(2000))}}, d{{"id", bson.Binary{Subtype: 4, Data: make([]byte, 16)}}},
	d{{"$expr", op("$gt", a{"$n", 1})}}, d{{"$expr", op("$eq", a{"$s", nil})}}, d{{"$expr", op("$in", a{2, op("$cond", a{op("$isArray", "$list"), "$list", a{}})})}},
	d{{"n", op("$lt", 5)}}, d{{"n", op("$gte", math.NaN())}}, d{{"n", op("$gt", math.NaN())}}, d{{"n", d{{"$gt", bson.MinKey{}}, {"$exists", true}}}}, d{{"n", d{{"$lt", bson.MaxKey{}}, {"$exists", true}}}}, d{{"n", op("$lt", bson.MinKey{})}},
	d{{"list", op("$elemMatch", op("$gt", 4))}}, d{{"list", op("$elemMatch", op("$gt", 6))}}, d{{"list.0.x", nil}}, d{{"list.2.x", op("$ne", nil)}}, d{{"s", op("$eq", bson.Regex{Pattern: "^a"})}}, d{{"s", op("$ne", bson.Regex{Pattern: "^a"})}},
	d{{"list", op("$elemMatch", d{{"0", 1}})}}, d{{"list", op("$elemMatch", d{{"0", op("$gt", 4)}})}}, d{{"list", op("$elemMatch", d{{"x", nil}})}}, d{{"list", op("$elemMatch", d{{"0", op("$exists", false)}})}},
	d{{"list", op("$elemMatch", d{{"$or", a{d{{"0", 5}}, d{{"y", 3}}}}})}}, d{{"list", op("$elemMatch", d{{"1", nil}, {"0", op("$type", "number")}})}}, d{{"list", op("$elemMatch", op("$elemMatch", op("$gt", 4)))}}, d{{"list", op("$not", op("$elemMatch", d{{"0", 1}}))}},
	d{{"s", op("$options", "i")}}, d{{"s", op("$regex", 5)}}, d{{"list", op("$all", 5)}}, d{{"list", op("$size", -1)}}, d{{"_id", "none"}, {"n", op("$in", a{op("$gt", 1)})}}, d{{"$expr", d{{"$eq", a{1, 1}}, {"$ne", a{1, 1}}}}},
	d{{"n", op("$nonsense", 1)}}, d{{"$nonsense", 1}}, d{{"n", op("$in", 1)}}, d{{"$or", a{}}},
}

var sorts = []any{
	d{{"n", 1}, {"_id", 1}}, d{{"n", -1}, {"_id", 1}}, d{{"s", 1}, {"_id", -1}}, d{{"list", 1}, {"_id", 1}}, d{{"list", -1}, {"_id", 1}},
	d{{"n", "up"}}, d{{"n", 2}}, d{{"docs.0.x", 1}, {"_id", 1}}, d{{"docs.1.y", -1}, {"_id", 1}}, d{{"docs.x", 1}, {"docs.y", 1}, {"_id", 1}}, d{{"docs.x", -1}, {"docs.y", 1}, {"_id", 1}}, d{{"docs.x", 1}, {"_id", 1}}, d{{"docs.x", -1}, {"_id", 1}}, d{{"in.x", 1}, {"_id", 1}}, d{{"_id", 1}}, d{{"_id", -1}},
}

var projections = []any{
	d{{"n", 1}}, d{{"n", 1}, {"_id", 0}}, d{{"n", 0}}, d{{"_id", 0}}, d{{"docs.x", 1}}, d{{"docs.x", 0}}, d{{"in.x", 1}, {"list", true}}, d{{"in", d{{"x", 1}}}},
	d{{"n", 1}, {"twice", op("$add", a{op("$ifNull", a{op("$size", op("$ifNull", a{"$docs.y", a{}})), 0}), 1})}}, d{{"all", "$$ROOT"}}, d{{"x", "$docs.x"}}, d{{"_id", 1}},
	d{{"n", 1}, {"s", 0}}, d{{"_id", 0}, {"x", "$n"}}, d{{"_id", 1}, {"n", 0}}, d{{"_id", 0}, {"in", d{{"x", "$n"}}}}, d{{"list.$", 1}}, d{{"x", op("$slice", a{"$docs", 5, 1, 1})}}, d{{"x", d{{"$add", a{1, 1}}, {"y", 1}}}}, d{{"x", op("$ifNull", "$n")}},
	d{{"k", op("$cond", a{op("$gt", a{"$n", 1}), "$s", "$$REMOVE"})}},
}

// outcome is a result in a form in which two servers can be compared.
func outcome(raw []bson.Raw, err error) string {
	var command mongo.CommandError
	var write mongo.WriteException
	switch {
	case errors.As(err, &command), errors.As(err, &write):
		return "an error"
	case err != nil:
		return err.Error()
	}
	text := ""
	for _, r := range raw {
		text += r.String() + "\n"
	}
	return text
}

// both are the same collection in memory and on the server.
func both(t *testing.T) map[string]*mongo.Collection {
	mem, err := locktest.New().Collection("operators")
	check(t, err)
	return map[string]*mongo.Collection{"memory": mem, "server": mongotest.Database(t).Collection("operators")}
}

// differ are the cases in which the server may differ, and why.
var differ = map[string]string{
	"replace: the _id is not first":                                                             "MongoDB stores the _id as the replacement has it, DocumentDB as it was",
	fmt.Sprint("update ", of("$set", "x.$y", 1), " of ", nested):                                "MongoDB refuses a path with a dollar",
	fmt.Sprint("update ", computed("$"), " of ", nested):                                        "MongoDB refuses an empty path",
	fmt.Sprint("update ", computed("$$"), " of ", nested):                                       "MongoDB refuses an empty path",
	fmt.Sprint("update ", computed("$x..y"), " of ", nested):                                    "MongoDB refuses a path with an empty name",
	fmt.Sprint("update ", computed(op("$subtract", a{"$t", 0.4})), " of ", nested):              "MongoDB cuts the number first, DocumentDB the result",
	fmt.Sprint("update ", computed(op("$add", a{"$dec", 0.1})), " of ", numbers):                "MongoDB adds all digits of a double to a decimal, DocumentDB 15",
	fmt.Sprint("sort by ", d{{"list", -1}, {"_id", 1}}):                                         "DocumentDB has empty arrays before null in both directions; MongoDB has them after it in the descending one",
	fmt.Sprint("update ", op("$set", d{{"c", 1}, {"b2", 2}, {"a", 3}}), " of ", nested):         "MongoDB adds new fields in the order of their names since 5.0, DocumentDB in that of the update",
	fmt.Sprint("update ", a{op("$replaceWith", d{{"_id", 1}, {"only", "$s"}})}, " of ", nested): "DocumentDB stores the _id twice",
}

// compare runs one case on both, and prints it.
func compare(t *testing.T, colls map[string]*mongo.Collection, name string, run func(*mongo.Collection) string) {
	t.Helper()
	memory, server := run(colls["memory"]), run(colls["server"])
	if why := differ[name]; why != "" && memory != server {
		t.Logf("differs: %s: %s", name, why)
		return
	}
	if memory != server {
		t.Errorf("%s\nmemory: %s\nserver: %s", name, memory, server)
		return
	}
	t.Logf("same: %s", name)
}

func TestReadsAreTheServers(t *testing.T) {
	colls := both(t)
	for _, coll := range colls {
		if _, err := coll.InsertMany(t.Context(), samples); err != nil {
			t.Fatal(err)
		}
	}
	find := func(filter any, opts *options.FindOptionsBuilder) func(*mongo.Collection) string {
		return func(coll *mongo.Collection) string {
			var all []bson.Raw
			cursor, err := coll.Find(t.Context(), filter, opts)
			if err == nil {
				err = cursor.All(t.Context(), &all)
			}
			return outcome(all, err)
		}
	}
	byID := d{{"_id", 1}}
	for _, filter := range filters {
		compare(t, colls, fmt.Sprint("find ", filter), find(filter, options.Find().SetSort(byID).SetProjection(byID)))
	}
	for _, sort := range sorts {
		compare(t, colls, fmt.Sprint("sort by ", sort), find(d{}, options.Find().SetSort(sort).SetProjection(byID)))
	}
	for _, projection := range projections {
		compare(t, colls, fmt.Sprint("project ", projection), find(d{}, options.Find().SetSort(byID).SetProjection(projection)))
	}
	compare(t, colls, "skip and limit", find(d{}, options.Find().SetSort(byID).SetSkip(2).SetLimit(3)))
	compare(t, colls, "count", func(coll *mongo.Collection) string {
		n, err := coll.CountDocuments(t.Context(), d{{"n", op("$gt", 1)}})
		estimated, err2 := coll.EstimatedDocumentCount(t.Context())
		return fmt.Sprint(n, estimated, err, err2)
	})
}

func TestUpdatesAreTheServers(t *testing.T) {
	colls := both(t)
	for _, u := range updates {
		compare(t, colls, fmt.Sprint("update ", u.update, " of ", u.document), func(coll *mongo.Collection) string {
			if _, err := coll.DeleteMany(t.Context(), d{}); err != nil {
				return err.Error()
			}
			document := append(d{{"_id", 1}}, u.document...)
			if _, err := coll.InsertOne(t.Context(), document); err != nil {
				return err.Error()
			}
			opts := options.FindOneAndUpdate().SetReturnDocument(options.After)
			if u.filters != nil {
				opts.SetArrayFilters(u.filters)
			}
			raw, err := coll.FindOneAndUpdate(t.Context(), d{{"_id", 1}}, u.update, opts).Raw()
			return outcome([]bson.Raw{raw}, err)
		})
	}
}

// The server's date is the clock's.
func TestCurrentDate(t *testing.T) {
	mem := locktest.New()
	coll := collection(t, mem, d{{"_id", 1}})
	mem.Advance(time.Hour)
	before := mem.Now().Truncate(time.Millisecond)
	for name, u := range map[string]any{
		"$currentDate": op("$currentDate", d{{"at", true}}),
		"$$NOW":        a{op("$set", d{{"at", "$$NOW"}})},
	} {
		var got struct{ At time.Time }
		check(t, coll.FindOneAndUpdate(t.Context(), d{{"_id", 1}}, u, options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&got))
		if got.At.Before(before) || got.At.After(mem.Now()) {
			t.Errorf("%s is %v, and the clock's %v", name, got.At, before)
		}
	}
}
