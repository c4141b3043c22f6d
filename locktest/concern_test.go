package locktest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

func asServer(err error, server *mongo.ServerError) bool { return errors.As(err, server) }

func isLost(err error) bool { return errors.Is(err, doclock.ErrLost) }

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

// A command that changes nothing is acknowledged at once, by an old primary too.
func TestNothingMatchedAtAnOldPrimary(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		old := c.deposed(options.Collection().SetWriteConcern(writeconcern.Majority()))
		began := time.Now()
		_, err := c.orders.InsertOne(t.Context(), bson.M{"_id": 2})
		check(t, err)
		deleted, err := old.DeleteOne(t.Context(), bson.M{"_id": 2})
		check(t, err)
		updated, err := old.UpdateOne(t.Context(), order, bson.M{"$set": bson.M{"total": 0}})
		check(t, err)
		_, err = old.InsertOne(t.Context(), order)
		if deleted.DeletedCount != 0 || updated.MatchedCount != 1 || updated.ModifiedCount != 0 || !mongo.IsDuplicateKeyError(err) || time.Since(began) > time.Minute {
			t.Errorf("deleted %d, updated %+v, %v, after %v", deleted.DeletedCount, updated, err, time.Since(began))
		}
	})
}

// find reads total with a read concern and a limit, at this client's members.
func find(t *testing.T, coll *mongo.Collection, level string) (int, error) {
	var reply struct {
		Cursor struct{ FirstBatch []struct{ Total int } }
	}
	err := coll.Database().RunCommand(t.Context(), bson.D{{Key: "find", Value: coll.Name()}, {Key: "filter", Value: order},
		{Key: "readConcern", Value: bson.M{"level": level}}, {Key: "maxTimeMS", Value: 5000}}).Decode(&reply)
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
		if got, err := find(t, old, "linearizable"); code(err) != 50 || time.Since(began) != 5*time.Second {
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

// A standalone has no majority.
func TestLinearizableNeedsMembers(t *testing.T) {
	if _, err := find(t, collection(t, locktest.New(), order), "linearizable"); code(err) != 123 {
		t.Errorf("a linearizable read of a standalone: %v", err)
	}
}
