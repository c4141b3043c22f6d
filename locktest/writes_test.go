package locktest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// written is what a command answers. (None of those here has the server make an _id.)
func written[T any](result *T, err error) string {
	if result == nil {
		return kindOf(err)
	}
	return fmt.Sprintf("%+v, %s", *result, kindOf(err))
}

func kindOf(err error) string {
	switch {
	case err == nil:
		return "done"
	case mongo.IsDuplicateKeyError(err):
		return "a duplicate key"
	default:
		return "an error"
	}
}

// three are the documents that each write meets.
var three = []any{d{{"_id", 1}, {"n", 1}, {"s", "a"}}, d{{"_id", 2}, {"n", 2}, {"s", "b"}}, d{{"_id", 3}, {"n", 3}, {"s", "a"}}}

// Writes that were not recorded do the same in memory and on the server, and a program can see the same of their errors.
// What was recorded, package recorded compares.
func TestWritesAreTheServers(t *testing.T) {
	colls := both(t)
	inc := op("$inc", d{{"n", 10}})
	upsert := options.UpdateOne().SetUpsert(true)
	raw := func(r *mongo.SingleResult) string {
		raw, err := r.Raw()
		return fmt.Sprint(raw, kindOf(err))
	}
	all := func(coll *mongo.Collection, stages ...any) string {
		var found []bson.Raw
		cursor, err := coll.Aggregate(t.Context(), a(stages))
		if err == nil {
			err = cursor.All(t.Context(), &found)
		}
		return fmt.Sprint(found, kindOf(err))
	}
	for _, c := range []struct {
		name string
		run  func(*mongo.Collection) string
	}{
		{"update one of two", func(c *mongo.Collection) string { return written(c.UpdateOne(t.Context(), d{{"s", "a"}}, inc)) }},
		{"upsert: by $or and $in of one, and $all", func(c *mongo.Collection) string {
			return written(c.UpdateOne(t.Context(), d{{"_id", 7}, {"$or", a{d{{"k", 1}}}}, {"l", op("$in", a{2})}, {"m", op("$all", a{3})}, {"o", op("$in", a{4, 5})}}, inc, upsert))
		}},
		{"upsert: $expr", func(c *mongo.Collection) string {
			return written(c.UpdateOne(t.Context(), d{{"_id", 7}, {"$expr", op("$eq", a{1, 1})}}, inc, upsert))
		}},
		{"upsert: a part of the _id", func(c *mongo.Collection) string {
			return written(c.ReplaceOne(t.Context(), d{{"_id.x", 7}}, d{{"n", 1}}, options.Replace().SetUpsert(true)))
		}},
		{"let", func(c *mongo.Collection) string {
			opts := options.UpdateOne().SetLet(d{{"k", op("$add", a{1, 1})}})
			return written(c.UpdateOne(t.Context(), d{{"$expr", op("$eq", a{"$n", "$$k"})}}, a{op("$set", d{{"k", "$$k"}})}, opts))
		}},
		{"let: of a field", func(c *mongo.Collection) string {
			return written(c.UpdateOne(t.Context(), d{}, a{op("$set", d{{"k", "$$k"}})}, options.UpdateOne().SetLet(d{{"k", op("$add", a{"$n", 1})}})))
		}},
		{"insert: an _id that is there as a symbol", func(c *mongo.Collection) string {
			_, err := c.InsertOne(t.Context(), d{{"_id", "x"}})
			_, again := c.InsertOne(t.Context(), d{{"_id", bson.Symbol("x")}})
			n, failed := c.CountDocuments(t.Context(), d{{"_id", bson.Symbol("x")}})
			return fmt.Sprint(kindOf(err), kindOf(again), n, kindOf(failed))
		}},
		{"insert: an _id that is there", func(c *mongo.Collection) string {
			_, err := c.InsertMany(t.Context(), []any{d{{"_id", 4}}, d{{"_id", 1.0}}, d{{"_id", 5}}})
			return kindOf(err)
		}},
		{"delete one of two", func(c *mongo.Collection) string { return written(c.DeleteOne(t.Context(), d{{"s", "a"}})) }},
		{"find one and delete", func(c *mongo.Collection) string {
			return raw(c.FindOneAndDelete(t.Context(), d{{"s", "a"}}, options.FindOneAndDelete().SetSort(d{{"n", -1}})))
		}},
		{"bulk", func(c *mongo.Collection) string {
			return written(c.BulkWrite(t.Context(), []mongo.WriteModel{
				mongo.NewInsertOneModel().SetDocument(d{{"_id", 4}}),
				mongo.NewUpdateOneModel().SetFilter(d{{"_id", 1}}).SetUpdate(inc),
				mongo.NewUpdateManyModel().SetFilter(d{{"n", op("$gt", 2)}}).SetUpdate(inc),
				mongo.NewDeleteOneModel().SetFilter(d{{"_id", 2}}),
				mongo.NewReplaceOneModel().SetFilter(d{{"_id", 5}}).SetReplacement(d{{"q", 1}}).SetUpsert(true),
			}))
		}},
		{"bulk: one fails", func(c *mongo.Collection) string {
			return written(c.BulkWrite(t.Context(), []mongo.WriteModel{
				mongo.NewUpdateOneModel().SetFilter(d{{"_id", 1}}).SetUpdate(op("$inc", d{{"s", 1}})),
				mongo.NewUpdateOneModel().SetFilter(d{{"_id", 2}}).SetUpdate(inc),
			}, options.BulkWrite().SetOrdered(false)))
		}},
		{"unique index", func(c *mongo.Collection) string {
			_, made := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d{{"n", 1}}, Options: options.Index().SetUnique(true)})
			_, inserted := c.InsertOne(t.Context(), d{{"_id", 4}, {"n", 1}})
			_, updated := c.UpdateOne(t.Context(), d{{"_id", 1}}, op("$set", d{{"n", 2}}))
			_, same := c.UpdateOne(t.Context(), d{{"_id", 1}}, op("$set", d{{"n", 1}}))
			return fmt.Sprint(kindOf(made), kindOf(inserted), kindOf(updated), kindOf(same))
		}},
		{"unique index: arrays", func(c *mongo.Collection) string {
			_, made := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d{{"k", 1}, {"n", 1}}, Options: options.Index().SetUnique(true)})
			_, first := c.InsertOne(t.Context(), d{{"_id", 4}, {"k", a{1, 2}}, {"n", 1}})
			_, second := c.InsertOne(t.Context(), d{{"_id", 5}, {"k", a{3, 2}}, {"n", 1}})
			_, third := c.InsertOne(t.Context(), d{{"_id", 6}, {"k", a{3, 2}}, {"n", 2}})
			return fmt.Sprint(kindOf(made), kindOf(first), kindOf(second), kindOf(third))
		}},
		{"unique index: odd keys", func(c *mongo.Collection) string {
			unique := options.Index().SetUnique(true)
			_, hashed := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d{{"k", "hashed"}}, Options: unique})
			_, zero := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d{{"k", 0}}})
			_, empty := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d{{"k..l", 1}}})
			return fmt.Sprint(kindOf(hashed), kindOf(zero), kindOf(empty))
		}},
		{"error: a duplicate", func(c *mongo.Collection) string {
			_, err := c.InsertOne(t.Context(), d{{"_id", 1}})
			return asked(err)
		}},
		{"error: duplicates in a bulk", func(c *mongo.Collection) string {
			_, err := c.BulkWrite(t.Context(), []mongo.WriteModel{
				mongo.NewInsertOneModel().SetDocument(d{{"_id", 1}}),
				mongo.NewInsertOneModel().SetDocument(d{{"_id", 2}}),
			}, options.BulkWrite().SetOrdered(false))
			return asked(err)
		}},
		{"error: another _id", func(c *mongo.Collection) string {
			_, err := c.UpdateOne(t.Context(), d{{"_id", 1}}, op("$set", d{{"_id", 3}}))
			return asked(err)
		}},
		{"error: an _id with a dollar", func(c *mongo.Collection) string {
			_, err := c.InsertOne(t.Context(), d{{"_id", d{{"$x", 1}}}})
			return asked(err)
		}},
		{"error: conflicting operators", func(c *mongo.Collection) string {
			return asked(c.FindOneAndUpdate(t.Context(), d{{"_id", 1}}, d{{"$set", d{{"n", 1}}}, {"$inc", d{{"n", 1}}}}).Err())
		}},
		{"error: a type", func(c *mongo.Collection) string {
			return asked(c.FindOneAndUpdate(t.Context(), d{{"_id", 1}}, op("$inc", d{{"s", 1}})).Err())
		}},
		{"error: a bad value", func(c *mongo.Collection) string {
			return asked(c.FindOne(t.Context(), d{{"n", op("$in", 1)}}).Err())
		}},
		{"error: nothing", func(c *mongo.Collection) string {
			return asked(c.FindOneAndDelete(t.Context(), d{{"_id", 9}}).Err())
		}},
		{"aggregate: count", func(c *mongo.Collection) string { return all(c, op("$match", d{{"s", "a"}}), op("$count", "n")) }},
		{"aggregate: all", func(c *mongo.Collection) string { return all(c) }},
		{"drop", func(c *mongo.Collection) string { return kindOf(c.Drop(t.Context())) }},
	} {
		run := func(coll *mongo.Collection) string {
			check(t, coll.Drop(t.Context()))
			if _, err := coll.InsertMany(t.Context(), three); err != nil {
				return err.Error()
			}
			answer := c.run(coll)
			var stored []bson.Raw
			cursor, err := coll.Find(t.Context(), d{}, options.Find().SetSort(d{{"_id", 1}}))
			check(t, err)
			check(t, cursor.All(t.Context(), &stored))
			return fmt.Sprint(answer, "; stored: ", stored)
		}
		if memory, server := run(colls["memory"]), run(colls["server"]); memory != server {
			t.Errorf("%s\nmemory: %s\nserver: %s", c.name, memory, server)
		}
	}
}

// A write that asks for no reply gets none, and its connection can be used. (FerretDB sends one.)
func TestUnacknowledged(t *testing.T) {
	client := locktest.New(t).Connect(options.Client().SetMaxPoolSize(1))
	coll := client.Database("test").Collection("documents")
	_, err := coll.InsertMany(t.Context(), three)
	check(t, err)
	silent := coll.Clone(options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
	result, err := silent.DeleteOne(t.Context(), d{{"_id", 2}})
	check(t, err)
	if n, err := coll.CountDocuments(t.Context(), d{}); result.Acknowledged || n != 2 || err != nil {
		t.Errorf("%+v, and then %d documents, %v", result, n, err)
	}
}

// The error of a duplicate key says in which index, and which key.
func TestADuplicateKeySaysWhich(t *testing.T) {
	coll := collection(t, locktest.New(t), three[0])
	_, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d{{"s", -1}}, Options: options.Index().SetUnique(true)})
	check(t, err)
	for want, id := range map[string]int{`{"_id": {"$numberInt":"1"}} {"_id": {"$numberInt":"1"}}`: 1, `{"s": {"$numberInt":"-1"}} {"s": "a"}`: 2} {
		var write mongo.WriteException
		var command mongo.CommandError
		_, err := coll.InsertOne(t.Context(), d{{"_id", id}, {"s", "a"}})
		again := coll.FindOneAndReplace(t.Context(), d{{"_id", id}, {"n", 9}}, d{{"s", "a"}}, options.FindOneAndReplace().SetUpsert(true)).Err()
		if !errors.As(err, &write) || !errors.As(again, &command) {
			t.Fatalf("%v, %v", err, again)
		}
		for _, raw := range []bson.Raw{write.WriteErrors[0].Raw, command.Raw} {
			if says := fmt.Sprint(raw.Lookup("keyPattern"), " ", raw.Lookup("keyValue")); says != want {
				t.Errorf("%s, not %s", says, want)
			}
		}
	}
}
