package engine

import (
	"strings"
	"testing"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

type sortedMap map[string]string

func (m sortedMap) MarshalBSON() ([]byte, error) {
	return bson.Marshal(bson.D{{Key: "group", Value: m["group"]}, {Key: "name", Value: m["name"]}})
}

// A map names another document each time, wherever the order of fields matters. A
// bson.D, a struct, a map of one field and operators are right.
func TestFilterRefusesMapsWithoutAnOrder(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Exclusive(), func(c *Config) { c.ShardKey = []string{"place.city"} })
	two, texts := bson.M{"group": "mail", "name": "nightly"}, map[string]string{"group": "mail", "name": "nightly"}
	type named struct{ Group, Name string }
	type wider struct {
		ID any `bson:"_id"`
	}
	type inlined struct {
		More map[string]any `bson:",inline"`
	}
	for name, c := range map[string]struct {
		filter  any
		refused bool
	}{
		"bson.M":                     {bson.M{"_id": two}, true},
		"a map of texts":             {bson.D{{Key: "_id", Value: texts}}, true},
		"a pointer to a map":         {bson.M{"_id": &two}, true},
		"below a bson.D":             {bson.M{"_id": bson.D{{Key: "x", Value: two}}}, true},
		"below a map of one":         {bson.M{"_id": bson.M{"x": two}}, true},
		"in an array":                {bson.M{"_id": bson.D{{Key: "x", Value: bson.A{1, two}}}}, true},
		"in a struct":                {bson.M{"_id": struct{ X any }{two}}, true},
		"inlined below the _id":      {bson.M{"_id": inlined{two}}, true},
		"of a struct":                {wider{two}, true},
		"of an inlined map":          {inlined{bson.M{"_id": two, "x": 1}}, true},
		"an operator's value":        {bson.M{"_id": bson.M{"$eq": two}}, true},
		"one of several":             {bson.M{"_id": bson.M{"$in": []any{1, two}}}, true},
		"a part of the _id":          {bson.M{"_id.x": two}, true},
		"in an $and":                 {bson.M{"$and": bson.A{bson.M{"_id": two}}}, true},
		"in a nested $or":            {bson.D{{Key: "$and", Value: []bson.M{{"$or": bson.A{bson.D{{Key: "_id", Value: two}}}}}}}, true},
		"the shard key":              {bson.M{"_id": 1, "place.city": two}, true},
		"around the shard key":       {bson.M{"_id": 1, "place": bson.M{"city": "Bern", "zip": 3000}}, true},
		"bson.D":                     {bson.M{"_id": bson.D{{Key: "group", Value: "mail"}, {Key: "name", Value: "nightly"}}}, false},
		"a struct":                   {bson.M{"_id": named{"mail", "nightly"}}, false},
		"a map of one":               {bson.M{"_id": bson.M{"name": "nightly"}}, false},
		"operators":                  {bson.M{"_id": bson.M{"$gte": 1, "$lt": 5}}, false},
		"a filter of several fields": {bson.M{"_id": 1, "state": "open", "total": bson.M{"$gt": 1, "$lt": 2}}, false},
		"another field":              {bson.M{"_id": 1, "address": two}, false},
		"a map that encodes itself":  {bson.M{"_id": sortedMap(texts)}, false},
		"bytes":                      {bson.M{"_id": []byte("mail")}, false},
		"nil":                        {bson.M{"_id": nil}, false},
		"a nil pointer":              {bson.M{"_id": (*named)(nil)}, false},
		"an ObjectID":                {bson.M{"_id": bson.NewObjectID()}, false},
		"encoded":                    {rawOf(bson.M{"_id": bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 2}}}), false},
	} {
		for range 3 {
			if _, err := e.ParseAny(c.filter); (err != nil) != c.refused || c.refused && !strings.Contains(err.Error(), "bson.D") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
