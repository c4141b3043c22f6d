package locktest_test

import (
	"context"
	"slices"
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
)

// replicas is a cluster with one document, in a bubble.
type replicas struct {
	*locktest.Server
	t      *testing.T
	orders *mongo.Collection
}

func onCluster(t *testing.T, run func(t *testing.T, c *replicas)) {
	synctest.Test(t, func(t *testing.T) {
		cluster := locktest.New(t, locktest.ReplicaSet())
		run(t, &replicas{cluster, t, cluster.Collection("orders", bson.M{"_id": 1, "total": 0})})
	})
}

// at is the collection of a client that reaches one member only.
func (c *replicas) at(address string, opts ...options.Lister[options.CollectionOptions]) *mongo.Collection {
	client := c.Connect(options.Client().SetReadPreference(readpref.Nearest()).SetRetryWrites(false))
	for _, other := range append(c.Secondaries(), c.Primary()) {
		if other != address {
			c.Cut(client, other)
		}
	}
	synctest.Wait() // until the driver has noticed
	return client.Database("test").Collection("orders", opts...)
}

var add = updates(order, bson.M{"$inc": bson.M{"total": 1}})

func total(t *testing.T, coll *mongo.Collection) int {
	t.Helper()
	var stored struct{ Total int }
	check(t, coll.FindOne(t.Context(), order).Decode(&stored))
	return stored.Total
}

// later runs a command and returns its end.
func later(run func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	synctest.Wait()
	return ended
}

func waits(t *testing.T, what string, ended <-chan error) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	select {
	case err := <-ended:
		t.Fatalf("%s ended: %v", what, err)
	default:
	}
}

func code(err error) int {
	if server := mongo.ServerError(nil); asServer(err, &server) && len(server.ErrorCodes()) > 0 {
		return server.ErrorCodes()[0]
	}
	return 0
}

// The driver finds the members, and sends each command to the right one, before and
// after a step-down. It hears of that without being refused.
func TestADriverFindsTheMembers(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		var mu sync.Mutex
		var asked []string
		client := c.Connect(options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, e.ConnectionID[:strings.Index(e.ConnectionID, "[")])
		}}))
		atPrimary := client.Database("test").Collection("orders")
		atSecondary := client.Database("test").Collection("orders", options.Collection().SetReadPreference(readpref.Secondary()))
		for i := range 3 {
			synctest.Wait() // until it has heard of all members
			asked = nil
			check(t, add(t.Context(), atPrimary))
			for range 20 {
				if got := total(t, atSecondary); got != i+1 {
					t.Errorf("a secondary has %d after %d writes", got, i+1)
				}
			}
			if asked[0] != c.Primary() || slices.Contains(asked[1:], c.Primary()) || !slices.Contains(asked, c.Secondaries()[0]) || !slices.Contains(asked, c.Secondaries()[1]) {
				t.Errorf("with the primary %s: %q", c.Primary(), asked)
			}
			before := c.Primary()
			c.StepDown()
			if c.Primary() == before || c.Primary() == "" {
				t.Errorf("after %s came %q", before, c.Primary())
			}
		}
	})
}

// A write that no majority has is not acknowledged. It is lost if another member is
// elected, and else it arrives.
func TestWritesOfAnIsolatedPrimary(t *testing.T) {
	for name, elected := range map[string]bool{"lost": true, "kept": false} {
		t.Run(name, func(t *testing.T) {
			onCluster(t, func(t *testing.T, c *replicas) {
				old := c.at(c.Primary())
				check(t, add(t.Context(), old))
				c.Isolate(c.Primary())
				written := later(func() error { return add(t.Context(), old) })
				waits(t, "a write", written)
				if got := total(t, old); got != 2 {
					t.Errorf("a local read shows %d", got)
				}
				want := 2
				if elected {
					before := c.Primary()
					c.StepDown()
					waits(t, "a write at the old primary", written)
					if got := total(t, c.orders); got != 1 || c.Primary() == before {
						t.Errorf("the new primary has %d", got)
					}
					want = 1
				}
				c.Heal()
				if err := <-written; elected != mongo.IsNetworkError(err) || !elected && err != nil {
					t.Errorf("the write: %v", err)
				}
				for _, member := range append(c.Secondaries(), c.Primary()) {
					if got := total(t, c.at(member)); got != want {
						t.Errorf("%s has %d, not %d", member, got, want)
					}
				}
			})
		})
	}
}

// Without a majority nobody is elected, and with one nobody who lacks what it has. A
// write waits for the primary.
func TestNoPrimary(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		c.Isolate(c.Secondaries()[0])
		check(t, add(t.Context(), c.orders))
		c.Isolate(c.Secondaries()...)
		c.StepDown()
		if c.Primary() != "" || len(c.Secondaries()) != 3 {
			t.Fatalf("the primary is %q", c.Primary())
		}
		written := later(func() error { return add(t.Context(), c.orders) })
		waits(t, "a write", written)
		c.Heal()
		check(t, <-written)
		if got := total(t, c.orders); got != 2 {
			t.Errorf("the total is %d", got)
		}
	})
}

// The driver's repeat of a write is executed once, also by another primary.
func TestARepeatedWriteIsExecutedOnce(t *testing.T) {
	onCluster(t, func(t *testing.T, c *replicas) {
		steps := func(context.Context, *event.CommandFailedEvent) {
			c.StepDown()
			time.Sleep(time.Second) // the driver repeats a write once: it must have heard of the new primary
		}
		client := c.Connect(options.Client().SetMonitor(&event.CommandMonitor{Failed: steps}))
		orders := client.Database("test").Collection("orders")
		before := c.Primary()
		c.LoseReplies(1)
		var stored struct{ Total int }
		check(t, orders.FindOneAndUpdate(t.Context(), order, bson.M{"$inc": bson.M{"total": 1}}).Decode(&stored))
		if stored.Total != 0 || c.Primary() == before {
			t.Errorf("the repeat was answered with %d by %s", stored.Total, c.Primary())
		}
		c.LoseRequests(1)
		check(t, add(t.Context(), orders))
		if got := total(t, orders); got != 2 {
			t.Errorf("two writes make %d", got)
		}
		update := bson.D{{Key: "update", Value: "orders"}, {Key: "updates", Value: bson.A{bson.M{"q": order, "u": inc}}}}
		write := func(number int) error { return numbered(t, c.Client(), -number, update) }
		check(t, write(7))
		check(t, write(7))
		if got := total(t, orders); got != 3 || code(write(6)) != 225 {
			t.Errorf("the total is %d, and an older number is answered %v", got, write(6))
		}
		c.Isolate(c.Primary())
		check(t, write(7)) // a majority has it
		once, again := later(func() error { return write(8) }), later(func() error { return write(8) })
		waits(t, "a write", once)
		waits(t, "its repeat", again)
		c.Heal()
		check(t, <-once)
		check(t, <-again)
		if got := total(t, orders); got != 4 {
			t.Errorf("the total is %d", got)
		}
	})
}
