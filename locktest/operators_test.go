package locktest_test

import (
	"testing"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

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

// op is {name: operand}.
func op(name string, operand any) d { return d{{name, operand}} }

// both are the same collection in memory and on the server.
func both(t *testing.T) map[string]*mongo.Collection {
	mem := locktest.New(t).Collection("operators")
	return map[string]*mongo.Collection{"memory": mem, "server": mongotest.Database(t).Collection("operators")}
}

// What was not recorded is as MongoDB's source has it.
func TestOperatorsAsInTheSource(t *testing.T) {
	let := d{{"none", "$$REMOVE"}, {"some", 5}}
	only := func(field string, e any) any { return op("$project", d{{"_id", 0}, {field, e}}) }
	for name, c := range map[string]struct {
		update, stage any
		want          string
	}{
		"a variable without a value": {nil, only("x", op("$ifNull", a{"$$none", "$$some"})), `{"x": {"$numberInt":"5"}}`},
		"a variable in an update":    {a{op("$set", d{{"y", "$$some"}})}, only("x", "$y"), `{"x": {"$numberInt":"5"}}`},
		"options beside a regex":     {nil, only("x", op("$regexMatch", d{{"input", "$s"}, {"regex", bson.Regex{Pattern: "^a"}}, {"options", "i"}})), `{"x": true}`},
		"$sort by an array":          {op("$push", d{{"list", d{{"$each", a{}}, {"$sort", d{{"n", 1}}}}}}), only("x", "$list.k"), `{"x": [{"$numberInt":"2"},{"$numberInt":"3"},{"$numberInt":"1"}]}`},
		"a group":                    {nil, op("$group", d{{"_id", 7}, {"n", op("$sum", int64(1))}}), `{"_id": {"$numberInt":"7"},"n": {"$numberLong":"1"}}`},
	} {
		coll := collection(t, locktest.New(t), d{{"_id", 1}, {"s", "Alice"}, {"list", a{d{{"k", 1}, {"n", a{1}}}, d{{"k", 2}}, d{{"k", 3}, {"n", 3}}}}})
		if c.update != nil {
			_, err := coll.UpdateOne(t.Context(), op("$expr", op("$lt", a{"$_id", "$$some"})), c.update, options.UpdateOne().SetLet(let))
			check(t, err)
		}
		cursor, err := coll.Aggregate(t.Context(), a{c.stage}, options.Aggregate().SetLet(let))
		var got []bson.Raw
		if err == nil {
			err = cursor.All(t.Context(), &got)
		}
		if err != nil || len(got) != 1 || got[0].String() != c.want {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
	}
}
