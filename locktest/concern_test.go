package locktest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

func asServer(err error, server *mongo.ServerError) bool { return errors.As(err, server) }

// deposed is a client that reaches only an old primary, which was isolated before
// another one was elected. (A driver that has heard of the new one never believes the
// old one again.)
func (c *replicas) deposed(opts ...options.Lister[options.CollectionOptions]) *mongo.Collection {
	old := c.at(c.Primary(), opts...)
	c.Isolate(c.Primary())
	c.StepDown()
	synctest.Wait() // until the other clients have heard of it
	return old
}

// A command that changes nothing is acknowledged at once by an old primary, too, unless
// it may have read what that primary has written alone.
func TestNothingMatchedAtAnOldPrimary(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		old := c.deposed(options.Collection().SetWriteConcern(writeconcern.Majority()))
		time.Sleep(time.Minute) // both primaries repeat that they are
		began := time.Now()
		_, err := c.orders.InsertOne(t.Context(), bson.M{"_id": 2})
		check(t, err)
		deleted, err := old.DeleteOne(t.Context(), bson.M{"_id": 2})
		check(t, err)
		updated, err := old.UpdateOne(t.Context(), order, bson.M{"$set": bson.M{"total": 0}})
		check(t, err)
		_, err = old.InsertOne(t.Context(), order)
		if deleted.DeletedCount != 0 || updated.MatchedCount != 1 || updated.ModifiedCount != 0 || !mongo.IsDuplicateKeyError(err) || time.Since(began) > 0 {
			t.Errorf("deleted %d, updated %+v, %v, after %v", deleted.DeletedCount, updated, err, time.Since(began))
		}
		for range 2 { // the second one changes nothing
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = old.UpdateOne(ctx, order, bson.M{"$set": bson.M{"alone": true}})
			cancel()
			if err == nil {
				t.Error("a write that no majority has is acknowledged")
			}
		}
	})
}

// A test may end while a command waits.
func TestTheEndAtAnIsolatedPrimary(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		c.Isolate(c.Primary())
		go func() { _ = add(context.Background(), c.orders) }()
		synctest.Wait()
	})
}

// find reads total with a read concern and a limit, at this client's members.
func find(t *testing.T, coll *mongo.Collection, level string) (int, error) {
	var reply struct {
		Cursor struct{ FirstBatch []struct{ Total int } }
	}
	err := coll.Database().RunCommand(t.Context(), bson.D{{Key: "find", Value: coll.Name()}, {Key: "filter", Value: order},
		{Key: "readConcern", Value: bson.M{"level": level}}, {Key: "maxTimeMS", Value: 5000}}, options.RunCmd().SetReadPreference(readpref.PrimaryPreferred())).Decode(&reply)
	if err != nil || len(reply.Cursor.FirstBatch) == 0 {
		return -1, err
	}
	return reply.Cursor.FirstBatch[0].Total, nil
}

// A majority read may be as old as what the member knew. A linearizable one is
// answered by a primary that a majority follows, and by nobody else.
func TestReadConcerns(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		check(t, add(t.Context(), c.orders))
		if got, err := find(t, c.orders, "linearizable"); got != 1 || err != nil {
			t.Errorf("linearizable, at the primary: %d, %v", got, err)
		}
		old := c.deposed()
		check(t, add(t.Context(), c.orders))
		for level, want := range map[string]int{"local": 1, "majority": 1} {
			if got, err := find(t, old, level); got != want || err != nil {
				t.Errorf("%s, at the old primary: %d, %v", level, got, err)
			}
		}
		began := time.Now()
		if got, err := find(t, old, "linearizable"); !errors.As(err, new(mongo.CommandError)) || code(err) != 50 || time.Since(began) != 5*time.Second {
			t.Errorf("linearizable, at the old primary, after %v: %d, %v", time.Since(began), got, err)
		}
		tail := later(func() error { return add(t.Context(), old) })
		waits(t, "a write at the old primary", tail)
		for level, want := range map[string]int{"local": 2, "majority": 1} {
			if got, err := find(t, old, level); got != want || err != nil {
				t.Errorf("%s, at the old primary with a tail: %d, %v", level, got, err)
			}
		}
		read := later(func() error { _, err := find(t, old, "linearizable"); return err })
		waits(t, "a linearizable read", read)
		c.Heal()
		if err := <-read; err == nil {
			t.Error("a linearizable read of a primary that stepped down was answered")
		}
		if err := <-tail; err == nil {
			t.Error("a write that was rolled back was acknowledged")
		}
	})
}

// A secondary refuses a linearizable read, and answers the others.
func TestReadsOfASecondary(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		secondary := c.at(c.Secondaries()[0])
		c.Isolate(c.Secondaries()[0])
		check(t, add(t.Context(), c.orders))
		for _, level := range []string{"local", "majority"} {
			if got, err := find(t, secondary, level); got != 0 || err != nil {
				t.Errorf("%s: %d, %v", level, got, err)
			}
		}
		if _, err := find(t, secondary, "linearizable"); code(err) != 10107 {
			t.Errorf("linearizable: %v", err)
		}
		if err := secondary.Database().RunCommand(t.Context(), bson.D{{Key: "find", Value: "orders"}, {Key: "$readPreference", Value: bson.M{"mode": "primary"}}},
			options.RunCmd().SetReadPreference(readpref.Nearest())).Err(); code(err) != 13435 {
			t.Errorf("a read for the primary: %v", err)
		}
		if _, err := find(t, c.orders, "snapshot"); code(err) != 115 {
			t.Errorf("snapshot: %v", err)
		}
		if err := c.orders.Database().RunCommand(t.Context(), bson.D{{Key: "delete", Value: "orders"}, {Key: "deletes", Value: bson.A{}},
			{Key: "readConcern", Value: bson.M{"level": "majority"}}}).Err(); code(err) != 72 {
			t.Errorf("a write with a read concern: %v", err)
		}
	})
}

// A write is acknowledged when as many members have it as its write concern says.
func TestWriteConcerns(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		with := func(w any) *mongo.Collection {
			return c.Client().Database("test").Collection("orders", options.Collection().SetWriteConcern(&writeconcern.WriteConcern{W: w}))
		}
		c.Isolate(c.Secondaries()[0])
		check(t, add(t.Context(), with("majority")))
		all := later(func() error { return add(t.Context(), with(3)) })
		waits(t, "a write that needs all members", all)
		c.Heal()
		check(t, <-all)

		c.Isolate(c.Primary())
		check(t, add(t.Context(), with(1)))
		check(t, add(t.Context(), with(0)))
		synctest.Wait()
		limited := func(limits ...bson.E) int {
			return code(c.orders.Database().RunCommand(t.Context(), append(bson.D{{Key: "update", Value: "orders"}, {Key: "updates", Value: bson.A{
				bson.M{"q": order, "u": bson.M{"$inc": bson.M{"total": 1}}}}}}, limits...)).Err())
		}
		began := time.Now()
		if got := limited(bson.E{Key: "writeConcern", Value: bson.M{"w": "majority", "wtimeout": 1000}}); got != 64 || time.Since(began) != time.Second {
			t.Errorf("after %v the write concern's error is %d", time.Since(began), got)
		}
		if got := limited(bson.E{Key: "maxTimeMS", Value: 1000}); got != 50 || time.Since(began) != 2*time.Second {
			t.Errorf("after %v the write concern's error is %d", time.Since(began), got)
		}
		if err := add(t.Context(), with(4)); code(err) != 115 {
			t.Errorf("a write that needs four members: %v", err)
		}
		if got := total(t, c.orders); got != 6 {
			t.Errorf("the old primary has %d", got)
		}
		c.StepDown()
		c.Heal()
		time.Sleep(time.Second) // the driver repeats a read once: it must have heard of the new primary
		if got := total(t, c.orders); got != 2 {
			t.Errorf("after the rollback the total is %d", got)
		}
	})
}

// The primary's step-down ends a write that waits. The driver repeats it, and it is
// executed once.
func TestAWriteThatWaitsForAStepDown(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		var mu sync.Mutex
		var replies []string
		client := c.Connect(options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			mu.Lock()
			defer mu.Unlock()
			replies = append(replies, e.Reply.String())
		}}))
		orders := client.Database("test").Collection("orders")
		c.Isolate(c.Secondaries()...)
		written := later(func() error { return add(t.Context(), orders) })
		waits(t, "a write", written)
		c.StepDown()
		waits(t, "a write without a primary", written)
		c.Heal()
		check(t, <-written)
		if got := total(t, c.orders); got != 1 || !strings.Contains(replies[0], "PrimarySteppedDown") || !strings.Contains(replies[0], "RetryableWriteError") {
			t.Errorf("the total is %d, after %q", got, replies)
		}
	})
}

// A standalone has no majority.
func TestLinearizableNeedsMembers(t *testing.T) {
	if _, err := find(t, collection(t, locktest.New(t), order), "linearizable"); code(err) != 123 {
		t.Errorf("a linearizable read of a standalone: %v", err)
	}
}
