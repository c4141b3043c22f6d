package locktest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/wire"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// topologies are the kinds of servers, with what [doclock.CheckServer] calls them.
var topologies = map[doclock.ServerKind][]locktest.Option{
	"standalone":      nil,
	"replica set":     {locktest.ReplicaSet()},
	"sharded cluster": {locktest.Sharded()},
}

// uses locks a document by a client, and writes it.
func uses(t *testing.T, client *mongo.Client) {
	t.Helper()
	orders := client.Database("test").Collection("orders")
	_, err := orders.InsertOne(t.Context(), bson.M{"_id": 1, "total": 0})
	check(t, err)
	locks := locker(t, orders)
	lease, err := locks.TryAcquire(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}
	check(t, lease.UpdateAndRelease(t.Context(), bson.M{"$inc": bson.M{"total": 1}}))
	if n := total(t, orders); n != 1 {
		t.Errorf("the total is %d", n)
	}
}

// Each kind of server says what it is, and locks work on it, by all ways to reach it.
func TestTopologies(t *testing.T) {
	for name, opts := range topologies {
		for way, reach := range map[string]func(*testing.T, *locktest.Server) *mongo.Client{
			"Client":  func(_ *testing.T, mem *locktest.Server) *mongo.Client { return mem.Client() },
			"Connect": func(_ *testing.T, mem *locktest.Server) *mongo.Client { return mem.Connect() },
			"its own client": func(t *testing.T, mem *locktest.Server) *mongo.Client {
				return connected(t, options.Client().ApplyURI(mem.URI()).SetDialer(mem))
			},
			"TCP": func(t *testing.T, mem *locktest.Server) *mongo.Client {
				uri, err := mem.Listen("127.0.0.1:0")
				check(t, err)
				return connected(t, options.Client().ApplyURI(uri))
			},
		} {
			t.Run(string(name)+"/"+way, func(t *testing.T) {
				client := reach(t, locktest.New(t, opts...))
				uses(t, client)
				if info, err := doclock.CheckServer(t.Context(), client.Database("test").Collection("orders")); err != nil || info.Kind != name {
					t.Errorf("it is a %q: %v", info.Kind, err)
				}
			})
		}
	}
}

func connected(t *testing.T, opts *options.ClientOptions) *mongo.Client {
	client, err := mongo.Connect(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(t.Context()) })
	return client
}

// After Close nobody reaches the server, over TCP neither, and what waited has ended.
func TestClose(t *testing.T) {
	for name, opts := range topologies {
		t.Run(string(name), func(t *testing.T) {
			mem := locktest.Start(opts...)
			uri, err := mem.Listen("127.0.0.1:0")
			check(t, err)
			client := connected(t, options.Client().ApplyURI(uri).SetServerSelectionTimeout(100*time.Millisecond))
			uses(t, client)
			mem.Delay(1, time.Hour)
			ended := make(chan error)
			go func() {
				ended <- client.Database("test").RunCommand(t.Context(), bson.D{{Key: "count", Value: "orders"}}).Err()
			}()
			time.Sleep(10 * time.Millisecond) // or else Close comes before the command, which fails all the same
			mem.Close()
			if err := <-ended; err == nil {
				t.Error("a command was answered that was still on its way")
			}
			if err := client.Ping(t.Context(), nil); err == nil {
				t.Error("a ping is answered")
			}
			mem.Close()
			if err := mem.Connect().Ping(t.Context(), nil); !errors.Is(err, mongo.ErrClientDisconnected) {
				t.Errorf("a new client's ping: %v", err)
			}
			if _, err := mem.Listen("127.0.0.1:0"); err == nil {
				t.Error("it listens again")
			}
		})
	}
}

// A router refuses, with code 61, to look for one document of which it doesn't know the shard.
func TestARouterWantsTheShardKey(t *testing.T) {
	mem := locktest.New(t, locktest.Sharded())
	orders := mem.Collection("orders", bson.M{"_id": 1, "region": "north", "place": bson.M{"country": "no"}, "total": 0})
	admin := mem.Client().Database("admin")
	check(t, admin.RunCommand(t.Context(), bson.D{{Key: "enableSharding", Value: "test"}}).Err())
	shard := func(key bson.D) {
		check(t, admin.RunCommand(t.Context(), bson.D{{Key: "shardCollection", Value: "test.orders"}, {Key: "key", Value: key}}).Err())
	}
	inc := bson.M{"$inc": bson.M{"total": 1}}
	modify := func(filter any) error { return orders.FindOneAndUpdate(t.Context(), filter, inc).Err() }
	update := func(filter any) error { _, err := orders.UpdateOne(t.Context(), filter, inc); return err }
	all := func(filter any) error { _, err := orders.UpdateMany(t.Context(), filter, inc); return err }
	remove := func(filter any) error { _, err := orders.DeleteOne(t.Context(), filter); return err }
	removeAll := func(filter any) error { _, err := orders.DeleteMany(t.Context(), filter); return err }
	find := func(filter any) error { return orders.FindOne(t.Context(), filter).Err() }
	upsert := func(filter any) error {
		_, err := orders.UpdateOne(t.Context(), filter, inc, options.UpdateOne().SetUpsert(true))
		return err
	}
	absent := bson.M{"region": "none"}
	for _, c := range []struct {
		name    string
		key     bson.D
		run     func(any) error
		filter  any
		refused bool
	}{
		{"findAndModify by _id", bson.D{{Key: "region", Value: 1}}, modify, bson.M{"_id": 1}, true},
		{"findAndModify by the key", bson.D{{Key: "region", Value: 1}}, modify, bson.M{"region": "north"}, false},
		{"$eq, in an $and", bson.D{{Key: "region", Value: 1}}, modify, bson.M{"$and": bson.A{bson.M{"region": bson.M{"$eq": "north"}}}}, false},
		{"$in", bson.D{{Key: "region", Value: 1}}, modify, bson.M{"region": bson.M{"$in": bson.A{"north"}}}, true},
		{"a pattern", bson.D{{Key: "region", Value: 1}}, modify, bson.M{"region": bson.Regex{Pattern: "north"}}, true},
		{"in an $or", bson.D{{Key: "region", Value: 1}}, modify, bson.M{"$or": bson.A{bson.M{"region": "north"}}}, true},
		{"a part of a key", bson.D{{Key: "region", Value: 1}, {Key: "total", Value: 1}}, modify, bson.M{"region": "north"}, true},
		{"a nested field", bson.D{{Key: "place.country", Value: 1}}, modify, bson.M{"place": bson.M{"country": "no"}}, false},
		{"its path", bson.D{{Key: "place.country", Value: 1}}, modify, bson.M{"place.country": "no"}, false},
		{"update by _id", bson.D{{Key: "region", Value: 1}}, update, bson.M{"_id": 1}, false},
		{"update by another field", bson.D{{Key: "region", Value: 1}}, update, bson.M{"total": 0}, true},
		{"update of all", bson.D{{Key: "region", Value: 1}}, all, bson.M{"total": -1}, false},
		{"upsert by _id", bson.D{{Key: "region", Value: 1}}, upsert, bson.M{"_id": 1}, true},
		{"delete by another field", bson.D{{Key: "region", Value: 1}}, remove, bson.M{"total": 0}, true},
		{"delete by the key", bson.D{{Key: "region", Value: 1}}, remove, absent, false},
		{"delete of all", bson.D{{Key: "region", Value: 1}}, removeAll, bson.M{"total": -1}, false},
		{"find", bson.D{{Key: "region", Value: 1}}, find, bson.M{"_id": 1}, false},
	} {
		shard(c.key)
		switch err := c.run(c.filter); {
		case c.refused && code(err) != 61:
			t.Errorf("%s: %v", c.name, err)
		case !c.refused && err != nil:
			t.Errorf("%s: %v", c.name, err)
		}
	}
	shard(bson.D{{Key: "region", Value: 1}})
	if _, err := locker(t, orders).TryAcquire(t.Context(), order); code(err) != 61 {
		t.Errorf("a lock without the shard key: %v", err)
	}
	lease, err := locker(t, orders, doclock.ShardKey("region")).TryAcquire(t.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "region", Value: "north"}})
	check(t, err)
	check(t, lease.Release(t.Context()))
	unique := func(keys bson.D) error {
		_, err := orders.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: keys, Options: options.Index().SetUnique(true)})
		return err
	}
	check(t, unique(bson.D{{Key: "region", Value: 1}, {Key: "total", Value: 1}}))
	if err := unique(bson.D{{Key: "total", Value: 1}, {Key: "region", Value: 1}}); code(err) != 67 {
		t.Errorf("a unique index that doesn't begin with the shard key: %v", err)
	}
	for _, drop := range []func(context.Context) error{func(ctx context.Context) error { return orders.Drop(ctx) }, orders.Database().Drop} {
		check(t, drop(t.Context()))
		check(t, upsert(bson.M{"_id": 1})) // a collection that was made anew isn't sharded
		shard(bson.D{{Key: "region", Value: 1}})
	}
}

// A driver asks any of the routers. Each names itself, and has a clock of its own.
func TestRoutersHaveClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := locktest.New(t, locktest.Sharded())
		orders := mem.Collection("orders", bson.M{"_id": 1})
		synctest.Wait() // the driver knows both
		asked := map[bson.ObjectID]int{}
		for range 64 {
			var hello struct {
				TopologyVersion struct{ ProcessID bson.ObjectID }
			}
			check(t, orders.Database().RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello))
			asked[hello.TopologyVersion.ProcessID]++
		}
		if len(asked) != 2 {
			t.Errorf("the driver has asked %v", asked)
		}
		one, other := mem.Connect(), mem.Connect()
		mem.Cut(one, "other.locktest:27017")
		mem.Cut(other, "router.locktest:27017")
		synctest.Wait() // each driver knows the one that it reaches
		mem.Advance(time.Minute, "other.locktest:27017")
		at := func(client *mongo.Client) time.Time {
			var stored struct{ At time.Time }
			check(t, client.Database("test").Collection(orders.Name()).FindOneAndUpdate(t.Context(), order,
				bson.A{bson.M{"$set": bson.M{"at": "$$NOW"}}}, options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&stored))
			return stored.At
		}
		if apart := at(other).Sub(at(one)); apart != time.Minute {
			t.Errorf("the routers' clocks are %v apart", apart)
		}
	})
}

// Only a replica set has members that step down; the test of another server fails.
func TestStepDownNeedsMembers(t *testing.T) {
	mem := locktest.Start()
	defer mem.Close()
	defer func() {
		if recover() == nil {
			t.Error("a single server has stepped down")
		}
	}()
	mem.StepDown()
}

// A connection within the process is one: a request may come in parts, and the member breaks it when the server is away,
// or after what is no message.
func TestConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := locktest.New(t)
		dial := func() net.Conn {
			conn, err := mem.DialContext(t.Context(), "tcp", "locktest:27017")
			check(t, err)
			return conn
		}
		if _, err := mem.DialContext(t.Context(), "tcp", "elsewhere:27017"); !contains(err, `"locktest:27017"`) {
			t.Errorf("another address: %v", err)
		}
		conn := dial()
		ping := message(t, bson.D{{Key: "ping", Value: 1}, {Key: "$db", Value: "admin"}})
		for i := range ping {
			_, err := conn.Write(ping[i : i+1])
			check(t, err)
		}
		answer, err := wire.Read(conn)
		if err != nil {
			t.Fatal(err)
		}
		if _, body := answer.Body(); body.Lookup("ok").AsInt64() != 1 {
			t.Errorf("the answer is %v", body)
		}
		if _, err := conn.Write(make([]byte, 16)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a message of no bytes: %v", err)
		}
		conn = dial()
		mem.Down(errors.New("the cable is out"))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a read: %v", err)
		}
		if _, err := conn.Write(ping); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a write: %v", err)
		}
	})
}

// message is a command as a driver sends it.
func message(t *testing.T, command bson.D) []byte {
	body, err := bson.Marshal(command)
	check(t, err)
	m := append(make([]byte, 21), body...)
	m[0], m[4], m[12], m[13] = byte(len(m)), 1, 0xdd, 0x07
	return m
}

// A Locker of a test that ends by itself needs nothing else: the server ends with the test.
func TestTheServerEndsWithItsTest(t *testing.T) {
	var client *mongo.Client
	t.Run("it", func(t *testing.T) {
		mem := locktest.New(t)
		client = mem.Client()
		_, err := writelock.New(mem.Collection("orders", order))
		check(t, err)
	})
	if err := client.Ping(t.Context(), nil); !errors.Is(err, mongo.ErrClientDisconnected) {
		t.Errorf("a ping after its test: %v", err)
	}
}
