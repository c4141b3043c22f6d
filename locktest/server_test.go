package locktest_test

import (
	"slices"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// What is not known is refused by its name, and changes nothing; so is what is too large.
func TestUnsupported(t *testing.T) {
	ctx := t.Context()
	mem := locktest.New(t)
	orders := collection(t, mem, bson.M{"_id": 1, "items": bson.A{1, 2}, "total": 1})
	one := bson.M{"_id": 1}
	set := bson.M{"$set": bson.M{"total": 2}}
	find := func(filter any) func() error {
		return func() error { return orders.FindOne(ctx, filter).Err() }
	}
	update := func(filter, u any) func() error {
		return func() error { _, err := orders.UpdateOne(ctx, filter, u); return err }
	}
	expr := func(e any) func() error { return update(bson.M{"_id": 9}, bson.A{bson.M{"$set": bson.M{"total": e}}}) } // of no document
	for name, c := range map[string]struct {
		run  func() error
		says string
	}{
		"a query operator":       {find(bson.M{"total": bson.M{"$mod": bson.A{2, 1}}}), "the query operator $mod"},
		"a joint":                {find(bson.M{"$where": "true"}), "the query operator $where"},
		"an operator":            {update(one, bson.M{"$bit": bson.M{"total": bson.M{"xor": 1}}}), "the update operator $bit"},
		"$slice in an $addToSet": {update(one, bson.M{"$addToSet": bson.M{"items": bson.D{{Key: "$each", Value: bson.A{3}}, {Key: "$slice", Value: -1}}}}), "unexpected fields after $each"},
		"$expr in an $elemMatch": {find(bson.M{"items": bson.M{"$elemMatch": bson.M{"$expr": true}}}), "$expr is not allowed"},
		"$expr in a $pull":       {update(one, bson.M{"$pull": bson.M{"items": bson.D{{Key: "n", Value: 1}, {Key: "$expr", Value: true}}}}), "$expr is not allowed"},
		"$gt in an $all":         {find(bson.M{"items": bson.M{"$all": bson.A{bson.M{"$gt": 1}}}}), "cannot nest $ under $all"},
		"two kinds in an $all":   {find(bson.M{"items": bson.M{"$all": bson.A{1, bson.M{"$elemMatch": bson.M{"$gt": 1}}}}}), "cannot nest $ under $all"},
		"an expression":          {expr(bson.M{"$sqrt": 4}), "the expression $sqrt"},
		"a capital variable":     {expr(bson.M{"$let": bson.M{"vars": bson.M{"X": 1}, "in": "$$X"}}), "an invalid character"},
		"a capital element":      {expr(bson.M{"$map": bson.M{"input": bson.A{1}, "as": "X", "in": "$$X"}}), "an invalid character"},
		"a name that ends early": {find(bson.M{"$expr": bson.M{"$arrayToObject": bson.A{bson.A{bson.A{"a\x00b", 1}}}}}), "null byte"},
		"a new one":              {update(one, bson.M{"$rename": bson.M{"total": "a\x00b"}}), "null byte"},
		"one in an $unset":       {update(one, bson.A{bson.M{"$unset": "total\x00b"}}), "null byte"},
		"one in a path":          {find(bson.M{"$expr": bson.M{"$eq": bson.A{"$a\x00b", 1}}}), "null byte"},
		"one of a count":         {func() error { _, err := orders.Aggregate(ctx, bson.A{bson.M{"$count": "a\x00b"}}); return err }, "the count field"},
		"one of a collection":    {func() error { return orders.Database().Collection("a\x00b").FindOne(ctx, one).Err() }, "Invalid namespace"},
		"an unknown variable":    {expr(bson.M{"$filter": bson.M{"input": bson.A{1}, "as": "x", "cond": "$$y"}}), "undefined variable: y"},
		"one that has ended":     {expr(bson.A{bson.M{"$let": bson.M{"vars": bson.M{"x": 1}, "in": "$$x"}}, "$$x"}), "undefined variable: x"},
		"one in a filter":        {find(bson.M{"_id": 9, "$expr": "$$x"}), "undefined variable: x"},
		"$expr in an array filter": {func() error {
			_, err := orders.UpdateOne(ctx, one, bson.M{"$set": bson.M{"items.$[x]": 3}}, options.UpdateOne().SetArrayFilters([]any{bson.M{"x.$expr": bson.M{"a": bson.M{"$nope": 1}}}}))
			return err
		}, "in an array filter"},
		"a stage": {func() error {
			_, err := orders.Aggregate(ctx, bson.A{bson.M{"$lookup": bson.M{"from": "x"}}})
			return err
		}, `the pipeline stage "$lookup"`},
		"a stage, where there is no document": {func() error {
			_, err := orders.Database().Collection("none").Watch(ctx, bson.A{})
			return err
		}, `the pipeline stage "$changeStream"`},
		"an expression that is not evaluated": {update(one, bson.A{bson.M{"$set": bson.M{"total": bson.M{"$cond": bson.A{true, 1, bson.M{"$sqrt": 4}}}}}}), "the expression $sqrt"},
		"the natural order": {func() error {
			return orders.FindOne(ctx, one, options.FindOne().SetSort(bson.M{"$natural": -1})).Err()
		}, "a sort by $natural"},
		"a hint of it": {func() error {
			return orders.FindOne(ctx, one, options.FindOne().SetHint(bson.M{"$natural": -1})).Err()
		}, "a hint of $natural"},
		"the positional operator": {update(bson.M{"_id": 1, "items": 2}, bson.M{"$set": bson.M{"items.$": 3}}), `the positional operator in "items.$"; use an array filter`},
		"a collation": {func() error {
			_, err := orders.UpdateOne(ctx, one, set, options.UpdateOne().SetCollation(&options.Collation{Locale: "de"}))
			return err
		}, "collations"},
		"a field of a command": {func() error {
			_, err := orders.Find(ctx, one, options.Find().SetMin(bson.D{{Key: "_id", Value: 1}}).SetHint("_id_"))
			return err
		}, `the field "min" of find`},
		"a broken document": {func() error { _, err := orders.InsertOne(ctx, bson.Raw{9, 0, 0, 0, 2, 'a', 0, 0, 0}); return err }, "cannot marshal"},
		"sort keys of another kind": {func() error {
			return orders.FindOne(ctx, one, options.FindOne().SetSort(bson.D{{Key: "total", Value: "up"}})).Err()
		}, "Illegal key in $sort specification"},
		"a TTL index": {func() error {
			_, err := orders.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(1)})
			return err
		}, "an index with expireAfterSeconds"},
		"a view":                           {func() error { return mem.Client().Database("test").CreateView(ctx, "v", "orders", bson.A{}) }, "a collection with viewOn"},
		"a command":                        {func() error { _, err := orders.Indexes().List(ctx); return err }, "the command listIndexes"},
		"options of a regex that has some": {find(bson.M{"name": bson.D{{Key: "$regex", Value: bson.Regex{Pattern: "^a", Options: "i"}}, {Key: "$options", Value: "s"}}}), "options set in both"},
		"the same in an expression":        {find(bson.M{"$expr": bson.M{"$regexMatch": bson.M{"input": "a", "regex": bson.Regex{Pattern: "^a", Options: "i"}, "options": "s"}}}), "specified in both"},
		"a regex":                          {find(bson.M{"name": bson.M{"$regex": "a(?=b)"}}), "the regular expression"},
		"a huge document":                  {func() error { _, err := orders.InsertOne(ctx, bson.M{"data": make([]byte, 17<<20)}); return err }, "larger than"},
	} {
		if err := c.run(); !contains(err, c.says) {
			t.Errorf("%s: %v; want %q", name, err, c.says)
		}
	}
	var stored bson.M
	check(t, orders.FindOne(ctx, one).Decode(&stored))
	if stored["total"] != int32(1) {
		t.Errorf("the document is %v", stored)
	}
}

// The caller's own registry, options and monitor are a client's.
func TestConnect(t *testing.T) {
	mem := locktest.New(t)
	var seen []string
	client := mem.Connect(options.Client().
		SetBSONOptions(&options.BSONOptions{UseJSONStructTags: true}).
		SetMonitor(&event.CommandMonitor{Started: fixture.Monitor(func(command bson.Raw) { seen = append(seen, fixture.Name(command)) }).Started}))
	orders := client.Database("test").Collection("orders")
	type order struct {
		ID    int `json:"_id"`
		Total int `json:"grandTotal"`
	}
	if _, err := orders.InsertOne(t.Context(), order{ID: 1, Total: 7}); err != nil {
		t.Fatal(err)
	}
	locks := locker(t, orders)
	var got order
	lease, err := locks.TryAcquire(t.Context(), bson.M{"_id": 1}, doclock.Into(&got))
	check(t, err)
	check(t, lease.Release(t.Context()))
	if got.Total != 7 || len(seen) != 3 || seen[1] != "findAndModify" {
		t.Errorf("got %+v by %v", got, seen)
	}
}

// A program may look which collections and databases there are.
func TestNamesAreListed(t *testing.T) {
	mem := locktest.New(t)
	mem.Collection("orders", bson.M{"_id": 1})
	mem.Collection("jobs", bson.M{"_id": 1})
	for _, c := range []struct {
		filter any
		want   []string
	}{{bson.M{}, []string{"jobs", "orders"}}, {bson.M{"name": "orders"}, []string{"orders"}}, {bson.M{"name": "ordres"}, nil}} {
		names, err := mem.Client().Database("test").ListCollectionNames(t.Context(), c.filter)
		if err != nil || !slices.Equal(names, c.want) {
			t.Errorf("%v: %q, %v", c.filter, names, err)
		}
	}
	if names, err := mem.Client().ListDatabaseNames(t.Context(), bson.M{"name": bson.M{"$in": bson.A{"test", "other"}}}); err != nil || !slices.Equal(names, []string{"test"}) {
		t.Errorf("databases: %q, %v", names, err)
	}
}
