package locktest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// onClusters runs a test in a bubble for each kind of server that has transactions, with one document.
func onClusters(t *testing.T, run func(t *testing.T, mem *locktest.Server, orders *mongo.Collection)) {
	for kind, opts := range topologies {
		if opts == nil {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := locktest.New(t, opts...)
				run(t, mem, mem.Collection("orders", bson.M{"_id": 1, "total": 0}))
			})
		})
	}
}

// within begins a transaction, which is aborted at the test's end, and returns its context.
func within(t *testing.T, client *mongo.Client, opts ...options.Lister[options.TransactionOptions]) (context.Context, *mongo.Session) {
	t.Helper()
	session, err := client.StartSession()
	check(t, err)
	t.Cleanup(func() { session.EndSession(context.Background()) })
	opts = append([]options.Lister[options.TransactionOptions]{options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority())}, opts...)
	check(t, session.StartTransaction(opts...))
	return mongo.NewSessionContext(t.Context(), session), session
}

// totalIn is the total as a context sees it; -1 if there is no document.
func totalIn(ctx context.Context, t *testing.T, coll *mongo.Collection) int {
	t.Helper()
	stored := struct{ Total int }{-1}
	if err := coll.FindOne(ctx, order).Decode(&stored); err != nil && err != mongo.ErrNoDocuments {
		t.Error(err)
	}
	return stored.Total
}

// write is one that is sent in a transaction, or beside it.
type write = func(context.Context, *mongo.Collection) error

func updates(filter, u any, opts ...options.Lister[options.UpdateOneOptions]) write {
	return func(ctx context.Context, coll *mongo.Collection) error {
		_, err := coll.UpdateOne(ctx, filter, u, opts...)
		return err
	}
}

func inserts(document any) write {
	return func(ctx context.Context, coll *mongo.Collection) error {
		_, err := coll.InsertOne(ctx, document)
		return err
	}
}

func deletes(ctx context.Context, coll *mongo.Collection) error {
	_, err := coll.DeleteOne(ctx, order)
	return err
}

func labelled(err error, label string) bool {
	server := mongo.ServerError(nil)
	return asServer(err, &server) && server.HasErrorLabel(label)
}

func conflicts(err error) bool {
	return code(err) == 112 && labelled(err, "TransientTransactionError")
}

// What another one has written, open or since the snapshot, ends a transaction with a conflict, also what is as it was. One that
// begins afterwards succeeds. This is as measured on MongoDB 5.0.7.
func TestWriteConflicts(t *testing.T) {
	upsert := updates(order, bson.M{"$set": bson.M{"total": 5}}, options.UpdateOne().SetUpsert(true))
	insert := inserts(bson.M{"_id": 1, "total": 9})
	same := updates(order, bson.M{"$set": bson.M{"total": 0}})
	for name, c := range map[string]struct {
		there bool
		since []write
		then  write
		code  int
	}{
		"updated":                          {true, []write{add}, add, 112},
		"updated, and not changed":         {true, []write{add}, same, 0},
		"inserted":                         {false, []write{upsert}, insert, 112},
		"inserted, and only updated":       {false, []write{upsert}, add, 0},
		"inserted and deleted":             {false, []write{upsert, deletes}, upsert, 112},
		"deleted":                          {true, []write{deletes}, upsert, 112},
		"deleted and inserted as it was":   {true, []write{deletes, upsert}, deletes, 112},
		"there before":                     {true, nil, insert, 11000},
		"nothing":                          {true, nil, add, 0},
		"a write that has changed nothing": {true, []write{same}, add, 0},
	} {
		for _, open := range []bool{false, true} { // the other one is a transaction that is open
			t.Run(name, func(t *testing.T) {
				onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
					if !c.there {
						check(t, deletes(t.Context(), orders))
					}
					ctx, session := within(t, mem.Client())
					totalIn(ctx, t, orders)
					other := t.Context()
					if open {
						other, _ = within(t, mem.Client())
					}
					for _, write := range c.since {
						check(t, write(other, orders))
					}
					err := c.then(ctx, orders)
					if code(err) != c.code || c.code == 112 != conflicts(err) {
						t.Fatalf("%v, not %d", err, c.code)
					}
					want := 0
					if c.code != 0 {
						want = 251
					}
					if err := session.CommitTransaction(ctx); code(err) != want || want != 0 && !labelled(err, "TransientTransactionError") {
						t.Errorf("the commit: %v", err)
					}
				})
			})
		}
	}
}

// Unique indexes conflict, too.
func TestConflictsOfAnIndex(t *testing.T) {
	onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
		_, err := orders.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "name", Value: 1}}, Options: options.Index().SetUnique(true)})
		check(t, err)
		ctx, session := within(t, mem.Client())
		other, _ := within(t, mem.Client())
		_, err = orders.InsertOne(ctx, bson.M{"_id": 2, "name": "A"})
		check(t, err)
		if _, err = orders.InsertOne(other, bson.M{"_id": 3, "name": "A"}); !conflicts(err) {
			t.Errorf("the same name in two transactions: %v", err)
		}
		written := later(func() error { _, err := orders.InsertOne(t.Context(), bson.M{"_id": 4, "name": "A"}); return err })
		waits(t, "an insert of the same name", written)
		check(t, session.CommitTransaction(ctx))
		if err := <-written; !mongo.IsDuplicateKeyError(err) {
			t.Errorf("the insert: %v", err)
		}
	})
}

// Outside of transactions a write waits for the one that has written the document, and is executed after its end. Reads, writes
// that change nothing, and writes of other documents don't wait.
func TestWritesWaitForATransaction(t *testing.T) {
	upsert := options.UpdateOne().SetUpsert(true)
	set := bson.M{"$set": bson.M{"by": "other"}}
	for name, c := range map[string]struct {
		write  write
		waits  bool
		commit int // the code after a commit
	}{
		"update":                    {add, true, 0},
		"update of nothing":         {updates(order, bson.M{"$set": bson.M{"total": 0}}), false, 0},
		"update of another":         {updates(bson.M{"_id": 2}, set), false, 0},
		"update of what is not yet": {updates(bson.M{"_id": 3}, set), false, 0},
		"delete":                    {deletes, true, 0},
		"findAndModify": {func(ctx context.Context, coll *mongo.Collection) error {
			return coll.FindOneAndUpdate(ctx, order, set).Err()
		}, true, 0},
		"upsert of its insert":        {updates(bson.M{"_id": 3}, set, upsert), true, 0},
		"upsert of more than its key": {updates(bson.M{"_id": 3, "n": 1}, set, upsert), true, 11000},
		"insert":                      {inserts(bson.M{"_id": 3}), true, 11000},
		"insert into its collection": {func(ctx context.Context, coll *mongo.Collection) error {
			return inserts(bson.M{"_id": 2})(ctx, coll.Database().Collection("new"))
		}, true, 0},
		"drop":         {func(ctx context.Context, coll *mongo.Collection) error { return coll.Drop(ctx) }, true, 0},
		"a find of it": {func(ctx context.Context, coll *mongo.Collection) error { return coll.FindOne(ctx, order).Err() }, false, 0},
	} {
		for _, end := range []string{"commit", "abort"} {
			t.Run(name+"/"+end, func(t *testing.T) {
				onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
					mem.Collection("orders", bson.M{"_id": 2})
					ctx, session := within(t, mem.Client())
					check(t, add(ctx, orders))
					_, err := orders.InsertOne(ctx, bson.M{"_id": 3, "n": 1})
					check(t, err)
					_, err = mem.Collection("new").InsertOne(ctx, order)
					check(t, err)
					written := later(func() error { return c.write(t.Context(), orders) })
					want := 0
					if c.waits {
						waits(t, name, written)
						if end == "commit" {
							want = c.commit
							check(t, session.CommitTransaction(ctx))
						} else {
							check(t, session.AbortTransaction(ctx))
						}
					}
					if err := <-written; code(err) != want || want == 0 && err != nil {
						t.Errorf("after the %s: %v, not %d", end, err, want)
					}
				})
			})
		}
	}
}

// A write that waits ends with its maxTimeMS, and says so; one that inserts waits beyond, as measured on MongoDB 5.0.7. What a
// command has written before it waited stands, and is written once.
func TestWritesWaitUntilTheirTimeIsUp(t *testing.T) {
	onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
		mem.Collection("orders", bson.M{"_id": 2, "total": 0})
		inc := bson.M{"$inc": bson.M{"total": 1}}
		update := func(id int) error {
			return orders.Database().RunCommand(t.Context(), bson.D{{Key: "update", Value: "orders"}, {Key: "updates", Value: bson.A{
				bson.M{"q": order, "u": inc}, bson.M{"q": bson.M{"_id": id}, "u": inc, "upsert": true}}}, {Key: "maxTimeMS", Value: 500}}).Err()
		}
		ctx, session := within(t, mem.Client())
		_, err := orders.UpdateOne(ctx, bson.M{"_id": 2}, inc)
		check(t, err)
		_, err = orders.InsertOne(ctx, bson.M{"_id": 3, "total": 0})
		check(t, err)
		began := time.Now()
		if err := update(2); code(err) != 50 || time.Since(began) != 500*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		many := later(func() error {
			done, err := orders.UpdateMany(t.Context(), bson.M{"_id": bson.M{"$lt": 3}}, inc)
			if err == nil && (done.MatchedCount != 2 || done.ModifiedCount != 2) {
				t.Errorf("an update of two: %+v", done)
			}
			return err
		})
		waits(t, "an update of many", many)
		inserted := later(func() error { return update(3) })
		waits(t, "an upsert", inserted)
		check(t, session.CommitTransaction(ctx))
		check(t, <-inserted)
		check(t, <-many)
		for id, want := range map[int]int{1: 3, 2: 2, 3: 1} {
			var stored struct{ Total int }
			check(t, orders.FindOne(t.Context(), bson.M{"_id": id}).Decode(&stored))
			if stored.Total != want {
				t.Errorf("the total of %d is %d, not %d", id, stored.Total, want)
			}
		}
	})
}

// A repeat of a write waits while the first waits, and gets its reply.
func TestARepeatOfAWriteThatWaits(t *testing.T) {
	onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
		ctx, session := within(t, mem.Client())
		_, err := orders.InsertOne(ctx, bson.M{"_id": 3})
		check(t, err)
		client := oneRouter(mem)
		insert := bson.D{{Key: "insert", Value: "orders"}, {Key: "documents", Value: bson.A{bson.M{"_id": 2}, bson.M{"_id": 3}}}}
		first := later(func() error { return numbered(t, client, -1, insert) })
		again := later(func() error { return numbered(t, client, -1, insert) })
		waits(t, "a write", first)
		waits(t, "its repeat", again)
		check(t, session.AbortTransaction(ctx))
		check(t, <-first)
		check(t, <-again)
		inc := bson.D{{Key: "update", Value: "orders"}, {Key: "updates", Value: bson.A{bson.M{"q": order, "u": bson.M{"$inc": bson.M{"total": 1}}}}}, {Key: "maxTimeMS", Value: 100}}
		ctx, _ = within(t, mem.Client())
		check(t, add(ctx, orders))
		if err := numbered(t, client, -2, inc); code(err) != 50 {
			t.Errorf("a write whose time is up: %v", err)
		}
		check(t, numbered(t, client, -2, bson.D{{Key: "update", Value: "orders"}, {Key: "updates", Value: bson.A{bson.M{"q": bson.M{"_id": 2}, "u": bson.M{"$set": bson.M{"n": 1}}}}}}))
	})
}

// $$NOW is when a command has come, also if it waits. A member takes it anew for a findAndModify; a router has sent its own.
func TestTheTimeOfAWriteThatWaits(t *testing.T) {
	onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
		update := func(u any) error { _, err := orders.UpdateOne(t.Context(), order, u); return err }
		now := bson.A{bson.M{"$set": bson.M{"at": "$$NOW"}}}
		for name, c := range map[string]struct {
			write func() error
			later bool
		}{
			"update":        {func() error { return update(now) }, false},
			"$currentDate":  {func() error { return update(bson.M{"$currentDate": bson.M{"at": true}}) }, true},
			"findAndModify": {func() error { return orders.FindOneAndUpdate(t.Context(), order, now).Err() }, mem.Primary() != ""},
		} {
			ctx, session := within(t, mem.Client())
			check(t, add(ctx, orders))
			time.Sleep(time.Second) // or it might write the time that is there
			began := time.Now()
			written := later(c.write)
			waits(t, name, written)
			check(t, session.CommitTransaction(ctx))
			check(t, <-written)
			var stored struct{ At time.Time }
			check(t, orders.FindOne(t.Context(), order).Decode(&stored))
			if took := stored.At.Sub(began); took > 500*time.Millisecond != c.later {
				t.Errorf("%s: its time is that after %v", name, took)
			}
		}
	})
}

// The server aborts a transaction that is open for too long, at most half of the time later. Nobody has to send anything.
func TestALongTransactionIsAborted(t *testing.T) {
	onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
		for _, limit := range []time.Duration{time.Minute, 10 * time.Second} {
			mem.LimitTransactions(limit)
			time.Sleep(limit/2 - time.Second)
			ctx, session := within(t, mem.Client())
			check(t, add(ctx, orders))
			began := time.Now()
			check(t, <-later(func() error { return add(t.Context(), orders) }))
			if took := time.Since(began); took < limit || took > limit+limit/2 {
				t.Errorf("a write waited for %v, with a limit of %v", took, limit)
			}
			if err := add(ctx, orders); code(err) != 251 || !labelled(err, "TransientTransactionError") {
				t.Errorf("a write in a transaction that was aborted: %v", err)
			}
			if err := session.CommitTransaction(ctx); code(err) != 251 {
				t.Errorf("a commit of a transaction that was aborted: %v", err)
			}
		}
		ctx, session := within(t, mem.Client())
		check(t, add(ctx, orders))
		mem.Advance(time.Minute)
		if err := session.CommitTransaction(ctx); code(err) != 251 {
			t.Errorf("a commit a minute later by the server's clock: %v", err)
		}
		if got := total(t, orders); got != 2 {
			t.Errorf("the total is %d", got)
		}
		var reply struct{ TransactionLifetimeLimitSeconds int }
		err := mem.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "getParameter", Value: 1}, {Key: "transactionLifetimeLimitSeconds", Value: 1}}).Decode(&reply)
		if mem.Primary() == "" {
			if code(err) != 72 {
				t.Errorf("a router knows the limit: %v", err)
			}
		} else if reply.TransactionLifetimeLimitSeconds != 10 || err != nil {
			t.Errorf("the limit is %+v, %v", reply, err)
		}
	})
}

// Each code that a transaction can end with, by commands of our own.
func TestCodesOfTransactions(t *testing.T) {
	one := func(name string, more ...bson.E) bson.D {
		return append(bson.D{{Key: name, Value: "orders"}}, more...)
	}
	find, inc := one("find"), one("update", bson.E{Key: "updates", Value: bson.A{bson.M{"q": order, "u": bson.M{"$inc": bson.M{"total": 1}}}}})
	commit, abort := bson.D{{Key: "commitTransaction", Value: 1}}, bson.D{{Key: "abortTransaction", Value: 1}}
	begin := func(command bson.D) bson.D {
		return append(slices.Clip(command), bson.E{Key: "startTransaction", Value: true})
	}
	level := func(command bson.D, level string) bson.D {
		return append(slices.Clip(command), bson.E{Key: "readConcern", Value: bson.M{"level": level}})
	}
	bad := one("update", bson.E{Key: "updates", Value: bson.A{bson.M{"q": order, "u": bson.M{"$inc": bson.M{"total": "one"}}}}})
	const plain = -1 // instead of a number's sign: a write with a number, and no transaction
	type step struct {
		number  int
		command bson.D
		code    int
	}
	for name, steps := range map[string][]step{
		"commit again":                   {{1, begin(inc), 0}, {1, commit, 0}, {1, commit, 0}, {1, abort, 256}, {1, find, 256}},
		"only read":                      {{1, begin(level(find, "snapshot")), 0}, {1, commit, 0}, {1, commit, 0}},
		"abort again":                    {{1, begin(inc), 0}, {1, abort, 0}, {1, abort, 251}, {1, commit, 251}, {1, find, 251}},
		"an older number":                {{2, begin(find), 0}, {1, begin(find), 225}, {1, find, 225}, {1, commit, 225}, {2, commit, 0}},
		"the same number":                {{1, begin(find), 0}, {1, begin(find), 117}, {1, commit, 0}, {1, begin(find), 117}},
		"no transaction":                 {{1, find, 251}},
		"a newer number":                 {{1, begin(inc), 0}, {2, find, 251}, {2, begin(inc), 0}, {1, commit, 225}, {2, commit, 0}},
		"a write with its number":        {{1, begin(inc), 0}, {plain * 1, inc, 72}, {1, commit, 0}, {plain * 1, inc, 72}},
		"a later write ends it":          {{1, begin(find), 0}, {plain * 2, inc, 0}, {1, find, 225}, {2, find, 251}, {2, begin(find), 117}},
		"a command that has no place":    {{1, begin(find), 0}, {1, one("count"), 263}, {1, one("drop"), 263}, {1, find, 0}, {1, commit, 0}},
		"a refused write":                {{1, begin(bad), 14}, {1, commit, 251}},
		"a refused command":              {{1, begin(find), 0}, {1, one("find", bson.E{Key: "filter", Value: bson.M{"$and": 1}}), 2}, {1, commit, 251}},
		"linearizable":                   {{1, begin(level(find, "linearizable")), 72}},
		"a read concern later":           {{1, begin(level(find, "majority")), 0}, {1, level(find, "local"), 72}},
		"a write concern":                {{1, begin(append(slices.Clip(inc), bson.E{Key: "writeConcern", Value: bson.M{"w": 1}})), 72}},
		"the session's end is announced": {{1, begin(inc), 0}, {0, bson.D{{Key: "endSessions", Value: bson.A{session(1)}}}, 0}, {1, commit, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
				client := oneRouter(mem)
				for i, s := range steps {
					if err := numbered(t, client, s.number, s.command); code(err) != s.code || s.code == 251 != labelled(err, "TransientTransactionError") {
						t.Errorf("step %d, %v: %v, not %d", i, s.command, err, s.code)
					}
				}
			})
		})
	}
	t.Run("a standalone", func(t *testing.T) {
		mem := locktest.New(t)
		for _, number := range []int{1, -1} {
			if err := numbered(t, mem.Client(), number, begin(inc)); code(err) != 20 || !contains(err, "only allowed on a replica set member or mongos") {
				t.Errorf("the number %d: %v", number, err)
			}
		}
		_, session := within(t, mem.Client())
		_, err := session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) { return nil, add(ctx, mem.Collection("orders")) })
		if err == nil {
			t.Error("a standalone has transactions")
		}
	})
}

// oneRouter is a client that reaches the members, or one router.
func oneRouter(mem *locktest.Server) *mongo.Client {
	client := mem.Connect(options.Client().SetRetryWrites(false))
	if mem.Primary() == "" {
		mem.Cut(client, "other.locktest:27017")
		synctest.Wait()
	}
	return client
}

func session(id byte) bson.M {
	return bson.M{"id": bson.Binary{Subtype: 4, Data: append(make([]byte, 15), id)}}
}

// numbered runs a command of a session's transaction with this number; below 0: of a write; 0: of none.
func numbered(t *testing.T, client *mongo.Client, number int, command bson.D) error {
	t.Helper()
	database := "test"
	if _, ends := command[0].Value.(int); ends {
		database = "admin"
	}
	command = slices.Clip(command)
	if number != 0 {
		command = append(command, bson.E{Key: "lsid", Value: session(1)}, bson.E{Key: "txnNumber", Value: int64(max(number, -number))})
	}
	if number > 0 {
		command = append(command, bson.E{Key: "autocommit", Value: false})
	}
	return client.Database(database).RunCommand(t.Context(), command, options.RunCmd().SetReadPreference(readpref.Primary())).Err()
}

// A collection that others have made, dropped or indexed since is none that a transaction can read.
func TestATransactionAndOtherCollections(t *testing.T) {
	onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
		ctx, _ := within(t, mem.Client())
		totalIn(ctx, t, orders)
		made := mem.Collection("made", order)
		if err := made.FindOne(ctx, order).Err(); code(err) != 246 || !labelled(err, "TransientTransactionError") {
			t.Errorf("a collection that was made since: %v", err)
		}
		ctx, session := within(t, mem.Client())
		totalIn(ctx, t, orders)
		check(t, made.Drop(t.Context()))
		if err := add(ctx, made); code(err) != 246 {
			t.Errorf("a collection that was dropped since: %v", err)
		}
		session.EndSession(t.Context())
		ctx, session = within(t, mem.Client())
		check(t, orders.Database().CreateCollection(ctx, "own"))
		_, err := mem.Collection("new").InsertOne(ctx, bson.M{"_id": 1, "total": 7})
		check(t, err)
		if inside, outside := totalIn(ctx, t, mem.Collection("new")), totalIn(t.Context(), t, mem.Collection("new")); inside != 7 || outside != -1 {
			t.Errorf("a collection that it has made: inside %d, outside %d", inside, outside)
		}
		check(t, session.CommitTransaction(ctx))
		if got := totalIn(t.Context(), t, mem.Collection("new")); got != 7 {
			t.Errorf("after the commit: %d", got)
		}
		check(t, orders.Database().CreateCollection(t.Context(), "own"))
		ctx, session = within(t, mem.Client())
		if err := orders.Database().CreateCollection(ctx, "own"); code(err) != 48 {
			t.Errorf("it makes one that is there: %v", err)
		}
		if err := session.CommitTransaction(ctx); code(err) != 251 {
			t.Errorf("its commit: %v", err)
		}
	})
}

// An index that is there is found at once, also beside a transaction. One that is almost the same is refused, and with one index
// all of its command.
func TestAnIndexThatIsThere(t *testing.T) {
	onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
		index := func(key, name string, unique bool) mongo.IndexModel {
			return mongo.IndexModel{Keys: bson.D{{Key: key, Value: 1}}, Options: options.Index().SetName(name).SetUnique(unique)}
		}
		create := func(all ...mongo.IndexModel) error {
			_, err := orders.Indexes().CreateMany(t.Context(), all)
			return err
		}
		check(t, create(index("name", "one", true)))
		ctx, session := within(t, mem.Client())
		check(t, add(ctx, orders))
		began := time.Now()
		check(t, create(index("name", "one", true)))
		if got := code(create(index("name", "one", false))); got != 86 {
			t.Errorf("the same name, and not unique: %d", got)
		}
		if got := code(create(index("name", "other", true))); got != 85 {
			t.Errorf("another name: %d", got)
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("they waited for %v", waited)
		}
		check(t, session.CommitTransaction(ctx))
		mem.Collection("orders", bson.M{"_id": 2, "name": "A", "area": 1}, bson.M{"_id": 3, "name": "B", "area": 1})
		if err := create(index("_id", "first", true), index("area", "second", true)); !mongo.IsDuplicateKeyError(err) {
			t.Errorf("an index on what is not unique: %v", err)
		}
		check(t, create(index("total", "first", false)))
	})
}

// The driver runs a transaction again after a conflict, and commits again if the answer is lost: it is applied once.
func TestTheDriverRepeatsATransaction(t *testing.T) {
	onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
		for fault, lose := range map[string]func(int, ...locktest.Kind){"requests": mem.LoseRequests, "replies": mem.LoseReplies} {
			commits := 0
			before := total(t, orders)
			client := mem.Connect(options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
				if e.CommandName != "commitTransaction" {
					return
				}
				if commits++; commits == 1 {
					lose(1)
				}
			}}))
			session, err := client.StartSession()
			check(t, err)
			runs := 0
			_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
				coll := client.Database("test").Collection("orders")
				totalIn(ctx, t, coll)
				if runs++; runs == 1 {
					check(t, add(t.Context(), orders)) // a conflict
				}
				return nil, add(ctx, coll)
			}, options.Transaction().SetWriteConcern(writeconcern.Majority()))
			session.EndSession(t.Context())
			again := mem.Primary() == "" && fault == "requests" && runs == 3 // the other router has said that there is no commit
			if got := total(t, orders); err != nil || got != before+2 || runs != commits || runs != 2 && !again {
				t.Errorf("lost %s: %v after %d runs and %d commits, the total is %d", fault, err, runs, commits, got)
			}
		}
	})
}

// A command that comes late opens its transaction late: nobody ends it but the server.
func TestALateFirstCommand(t *testing.T) {
	onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
		began := time.Now()
		ctx, session := within(t, mem.Client())
		mem.Delay(1, 10*time.Second)
		short, cancel := context.WithTimeout(ctx, time.Second)
		err := add(short, orders)
		cancel()
		mem.Delay(0, 0)
		if err == nil {
			t.Fatal("a write of unknown outcome succeeded")
		}
		none := map[bool]int{true: 50940, false: 251}[mem.Primary() == ""] // a router asks for the token
		if err := session.CommitTransaction(ctx); code(err) != none {
			t.Errorf("the commit before it comes: %v", err)
		}
		time.Sleep(10 * time.Second)
		check(t, add(t.Context(), orders))
		if took := time.Since(began); took < 70*time.Second || total(t, orders) != 1 {
			t.Errorf("a write waited until %v, and then the total is %d", took, total(t, orders))
		}
	})
}

// A transaction ends with its primary, and a repeat of what waited for it goes on at the new one. What a commit has written is committed when a majority has it, and lost else; the new
// primary knows it, or says that there is none.
func TestATransactionAndAFailover(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		c.Collection("orders", bson.M{"_id": 2, "total": 0})
		ctx, session := within(t, c.Client())
		check(t, add(ctx, c.orders))
		waiter := later(func() error {
			inc := mongo.NewUpdateOneModel().SetUpdate(bson.M{"$inc": bson.M{"total": 1}})
			other := *inc
			_, err := c.orders.BulkWrite(t.Context(), []mongo.WriteModel{other.SetFilter(bson.M{"_id": 2}), inc.SetFilter(order)})
			return err
		})
		waits(t, "a write", waiter)
		numberOf := bson.D{{Key: "update", Value: "orders"}, {Key: "updates", Value: bson.A{bson.M{"q": order, "u": bson.M{"$set": bson.M{"number": 1}}}}}, {Key: "maxTimeMS", Value: 10_000}}
		client := oneRouter(c.Server)
		broken := later(func() error { return numbered(t, client, -1, numberOf) })
		waits(t, "a write of a session", broken)
		for first := c.Primary(); ; {
			c.StepDown()
			synctest.Wait()
			if c.Primary() == first { // it is primary again
				break
			}
		}
		if err := <-broken; code(err) != 11602 || !labelled(err, "RetryableWriteError") {
			t.Errorf("a write that waited when the primary stepped down: %v", err)
		}
		check(t, numbered(t, client, -2, numberOf))
		if err := add(ctx, c.orders); code(err) != 251 || !labelled(err, "TransientTransactionError") {
			t.Errorf("a command after a step-down: %v", err)
		}
		if err := session.CommitTransaction(ctx); code(err) != 251 || !labelled(err, "TransientTransactionError") {
			t.Errorf("a commit after a step-down: %v", err)
		}
		check(t, <-waiter) // the driver repeats it
		if n, err := c.orders.CountDocuments(t.Context(), bson.M{"total": 1}); n != 2 || err != nil {
			t.Errorf("the bulk has written %d of two documents once: %v", n, err)
		}

		ctx, session = within(t, c.Client())
		check(t, add(ctx, c.orders))
		check(t, session.CommitTransaction(ctx))
		c.StepDown()
		synctest.Wait()
		check(t, session.CommitTransaction(ctx)) // again, at the new primary
		if got := total(t, c.orders); got != 2 {
			t.Errorf("the total is %d", got)
		}
	})
}

// An old primary commits nothing: not what was written, and not what was only read. It doesn't know that a transaction is not
// there.
func TestATransactionAtAnOldPrimary(t *testing.T) {
	for name, command := range map[string]func(context.Context, *mongo.Collection) error{
		"written": add,
		"read":    func(ctx context.Context, coll *mongo.Collection) error { return coll.FindOne(ctx, order).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			onCluster(t, func(t *testing.T, c *replicas) {
				old := c.deposed()
				ctx, session := within(t, old.Database().Client(), options.Transaction().SetReadPreference(readpref.Primary()))
				check(t, command(ctx, old))
				ended := later(func() error {
					ctx, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					return session.CommitTransaction(ctx)
				})
				if err := <-ended; err == nil || labelled(err, "TransientTransactionError") {
					t.Errorf("the commit: %v", err)
				}
				for _, end := range []string{"commitTransaction", "abortTransaction"} {
					err := numbered(t, old.Database().Client(), 1, bson.D{{Key: end, Value: 1}, {Key: "writeConcern", Value: bson.M{"w": "majority", "wtimeout": 1000}}})
					if code(err) != 251 || labelled(err, "TransientTransactionError") {
						t.Errorf("%s of a transaction that is not there: %v", end, err)
					}
				}
				c.Heal()
				synctest.Wait()
				if got := total(t, c.orders); got != 0 {
					t.Errorf("the total is %d", got)
				}
			})
		})
	}
}

// Another router commits a transaction by the token that the client was given, or says that it is not committed. Without the
// token it doesn't know.
func TestATransactionAndTwoRouters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := locktest.New(t, locktest.Sharded())
		orders := mem.Collection("orders", bson.M{"_id": 1, "total": 0, "area": "N"})
		check(t, mem.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "shardCollection", Value: "test.orders"}, {Key: "key", Value: bson.M{"area": 1}}}).Err())
		first, second := oneRouter(mem), mem.Connect(options.Client().SetRetryWrites(false))
		mem.Cut(second, "router.locktest:27017")
		synctest.Wait()
		inc := bson.D{{Key: "update", Value: "orders"}, {Key: "updates", Value: bson.A{bson.M{"q": order, "u": bson.M{"$inc": bson.M{"total": 1}}}}}, {Key: "startTransaction", Value: true}}
		find := bson.D{{Key: "find", Value: "orders"}, {Key: "startTransaction", Value: true}}
		commit := func(token any) bson.D {
			return bson.D{{Key: "commitTransaction", Value: 1}, {Key: "recoveryToken", Value: token}}
		}
		shard := bson.M{"recoveryShardId": "shard"}

		check(t, numbered(t, first, 1, inc))
		if err := numbered(t, second, 1, find[:1]); code(err) != 251 {
			t.Errorf("a command at another router: %v", err)
		}
		if err := numbered(t, second, 1, commit(shard)[:1]); code(err) != 50940 {
			t.Errorf("a commit without a token: %v", err)
		}
		check(t, numbered(t, first, 1, commit(shard)))
		check(t, numbered(t, second, 1, commit(shard)))
		check(t, numbered(t, first, 2, find))
		if err := numbered(t, second, 2, commit(bson.M{})); code(err) != 251 {
			t.Errorf("a commit of what has only read: %v", err)
		}
		check(t, numbered(t, first, 3, inc))
		if err := numbered(t, second, 3, commit(shard)); code(err) != 251 {
			t.Errorf("a commit at another router before the first has sent it: %v", err)
		}
		if err := numbered(t, first, 3, commit(shard)); code(err) != 251 {
			t.Errorf("a commit after the other router has said that there will be none: %v", err)
		}

		ctx, session := within(t, mem.Client()) // across the shard key's values
		_, err := orders.InsertOne(ctx, bson.M{"_id": 2, "area": "S"})
		check(t, err)
		check(t, add(ctx, orders))
		check(t, session.CommitTransaction(ctx))
		ctx, session = within(t, mem.Client())
		totalIn(ctx, t, orders)
		if err := orders.Drop(ctx); code(err) != 263 {
			t.Errorf("a drop: %v", err)
		}
		if err := orders.FindOneAndUpdate(ctx, order, bson.M{"$inc": bson.M{"total": 1}}).Err(); code(err) != 61 {
			t.Errorf("a command without the shard key: %v", err)
		}
		if err := session.CommitTransaction(ctx); code(err) != 251 || total(t, orders) != 2 {
			t.Errorf("its commit: %v, and the total is %d", err, total(t, orders))
		}
	})
}

// A session reads what it has written, also from a member that has it later.
func TestACausalSession(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		away := c.Secondaries()[0]
		secondary := c.at(away)
		c.Isolate(away)
		check(t, c.Client().UseSession(t.Context(), func(ctx context.Context) error { return add(ctx, c.orders) }))
		session, err := c.Client().StartSession()
		check(t, err)
		check(t, add(mongo.NewSessionContext(t.Context(), session), c.orders))
		there, err := secondary.Database().Client().StartSession()
		check(t, err)
		check(t, there.AdvanceOperationTime(session.OperationTime()))
		if got := total(t, secondary); got != 0 {
			t.Errorf("without the session it has %d", got)
		}
		read := later(func() error {
			if got := totalIn(mongo.NewSessionContext(t.Context(), there), t, secondary); got != 2 {
				t.Errorf("the session reads %d", got)
			}
			return nil
		})
		waits(t, "a read of what has not come", read)
		c.Heal()
		check(t, <-read)
		session.EndSession(t.Context())
		there.EndSession(t.Context())
	})
}

// A client that disconnects in a transaction leaves it to the server, unless it ends its session.
func TestADisconnectInATransaction(t *testing.T) {
	onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
		for _, ends := range []bool{true, false} {
			var sent []string
			client := mem.Connect(options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) { sent = append(sent, e.CommandName) }}))
			session, err := client.StartSession()
			check(t, err)
			check(t, session.StartTransaction())
			check(t, add(mongo.NewSessionContext(t.Context(), session), client.Database("test").Collection("orders")))
			if ends {
				session.EndSession(t.Context())
			}
			check(t, client.Disconnect(t.Context()))
			began := time.Now()
			check(t, add(t.Context(), orders))
			if waited := time.Since(began) > 50*time.Second; waited == ends {
				t.Errorf("a write waited for %v after %s", time.Since(began), strings.Join(sent, ", "))
			}
		}
	})
}

// A router forgets a shard key when the collection is dropped, and not while the drop waits for a transaction.
func TestADropThatWaitsForgetsNoShardKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := locktest.New(t, locktest.Sharded())
		orders := mem.Collection("orders", bson.M{"_id": 1, "total": 0})
		shard := bson.D{{Key: "shardCollection", Value: "test.orders"}, {Key: "key", Value: bson.M{"region": 1}}}
		check(t, mem.Client().Database("admin").RunCommand(t.Context(), shard).Err())
		ctx, session := within(t, mem.Client())
		check(t, add(ctx, orders))
		dropped := later(func() error { return orders.Database().Drop(t.Context()) })
		waits(t, "a drop", dropped)
		if _, err := orders.UpdateOne(t.Context(), bson.M{"total": 7}, bson.M{"$set": bson.M{"x": 1}}); code(err) != 61 {
			t.Errorf("an update without the shard key, before the drop: %v", err)
		}
		check(t, session.CommitTransaction(ctx))
		check(t, <-dropped)
	})
}
