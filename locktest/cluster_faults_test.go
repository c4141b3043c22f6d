package locktest_test

import (
	"testing"
	"time"

	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Each member has its own clock, which $$NOW and $currentDate show.
func TestClocksOfMembers(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		ahead := func(u any) time.Duration {
			var stored struct{ At time.Time }
			after := options.FindOneAndUpdate().SetReturnDocument(options.After)
			check(t, c.orders.FindOneAndUpdate(t.Context(), order, u, after).Decode(&stored))
			return time.Until(stored.At).Round(time.Second)
		}
		stamp := func() time.Duration {
			now := ahead(mongo.Pipeline{{{Key: "$set", Value: bson.M{"at": "$$NOW"}}}})
			if date := ahead(bson.M{"$currentDate": bson.M{"at": true}}); date != now {
				t.Errorf("$$NOW is ahead by %v, and $currentDate by %v", now, date)
			}
			return now
		}
		if got := stamp(); got != 0 {
			t.Errorf("a clock that nobody turned is ahead by %v", got)
		}
		c.Advance(-time.Minute, c.Primary())
		c.Advance(-time.Second, c.Primary())
		behind := stamp()
		c.StepDown()
		if got := stamp(); behind != -61*time.Second || got != 0 {
			t.Errorf("the old primary is ahead by %v, and the new one by %v", behind, got)
		}
	})
}

// A client that is cut off reaches none of the members, and others reach all.
func TestCutOffACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		client := c.Connect(options.Client().SetServerSelectionTimeout(3 * time.Second)) // a monitor may fail twice, half a second apart
		check(t, client.Ping(t.Context(), nil))
		c.Cut(client)
		if err := client.Ping(t.Context(), nil); err == nil {
			t.Error("a client that is cut off reaches the primary")
		}
		check(t, add(t.Context(), c.orders))
		c.Heal()
		check(t, add(t.Context(), client.Database("test").Collection("orders")))
	})
}

// A client that reads again at once comes to the end of its time, also on one processor.
func TestALostMessageTakesTime(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		for name, lose := range map[string]func(int, ...locktest.Kind){"request": c.LoseRequests, "reply": c.LoseReplies} {
			begun := time.Now()
			lose(1)
			if err := add(t.Context(), c.at(c.Primary())); err == nil || time.Since(begun) == 0 {
				t.Errorf("a lost %s: %v after %v", name, err, time.Since(begun))
			}
		}
	})
}
