package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// connects makes clients of a server in memory, and of the real one.
func connects(t *testing.T) map[string]func(*options.ClientOptions) (*mongo.Client, error) {
	uri := mongotest.URI(t)
	return map[string]func(*options.ClientOptions) (*mongo.Client, error){
		"memory": func(opts *options.ClientOptions) (*mongo.Client, error) { return locktest.New(t).Connect(opts), nil },
		"server": func(opts *options.ClientOptions) (*mongo.Client, error) { return mongo.Connect(opts.ApplyURI(uri)) },
	}
}

// A program whose commands go on at the end of its test ends with its client. (In the
// driver, a command that looks for a server while its client is disconnected doesn't
// wait any more but asks again and again: in a bubble, for ever.)
func TestTheTestEndsBeforeItsCommands(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			var under sync.WaitGroup
			t.Cleanup(under.Wait) // after the cluster's end
			c := locktest.New(t, locktest.ReplicaSet())
			coll := c.Collection("documents")
			for after := range 4 {
				under.Go(func() {
					for err := error(nil); !errors.Is(err, mongo.ErrClientDisconnected); {
						time.Sleep(time.Duration(1+after) * time.Millisecond)
						_, err = coll.InsertOne(context.Background(), bson.M{})
					}
				})
			}
			time.Sleep(10 * time.Millisecond)
		})
	}
}

// The option for how long a command looks for a server holds.
func TestSelection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := locktest.New(t)
		mem.Down(errors.New("connection refused")) // before the client looks for it
		client := mem.Connect(options.Client().SetServerSelectionTimeout(3 * time.Second))
		start := time.Now()
		if err := client.Ping(t.Context(), nil); !mongo.IsTimeout(err) || !contains(err, "connection refused") || time.Since(start) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// What a program can see of a command's error and its events is the same.
func TestErrorsAreTheServers(t *testing.T) {
	for what, run := range map[string]func(context.Context, *mongo.Collection) error{
		"insert a duplicate": func(ctx context.Context, coll *mongo.Collection) error {
			_, err := coll.InsertOne(ctx, bson.M{"_id": 1})
			return err
		},
		"update to a duplicate": func(ctx context.Context, coll *mongo.Collection) error {
			_, err := coll.UpdateOne(ctx, bson.M{"_id": 2}, bson.M{"$set": bson.M{"n": 1}})
			return err
		},
		"change the _id": func(ctx context.Context, coll *mongo.Collection) error {
			_, err := coll.UpdateOne(ctx, bson.M{"_id": 1}, bson.M{"$set": bson.M{"_id": 3}})
			return err
		},
		"conflicting operators": func(ctx context.Context, coll *mongo.Collection) error {
			return coll.FindOneAndUpdate(ctx, bson.M{"_id": 1}, bson.D{{Key: "$set", Value: bson.M{"n": 1}}, {Key: "$inc", Value: bson.M{"n": 1}}}).Err()
		},
		"a type": func(ctx context.Context, coll *mongo.Collection) error {
			return coll.FindOneAndUpdate(ctx, bson.M{"_id": 1}, bson.M{"$inc": bson.M{"s": 1}}).Err()
		},
		"a bad value": func(ctx context.Context, coll *mongo.Collection) error {
			return coll.FindOne(ctx, bson.M{"n": bson.M{"$in": 1}}).Err()
		},
		"an _id with a dollar": func(ctx context.Context, coll *mongo.Collection) error {
			_, err := coll.InsertOne(ctx, bson.M{"_id": bson.M{"$x": 1}})
			return err
		},
		"nothing": func(ctx context.Context, coll *mongo.Collection) error {
			return coll.FindOneAndDelete(ctx, bson.M{"_id": 9}).Err()
		},
		"unacknowledged": func(ctx context.Context, coll *mongo.Collection) error {
			_, err := coll.Database().Collection(coll.Name(), options.Collection().SetWriteConcern(writeconcern.Unacknowledged())).DeleteOne(ctx, bson.M{"_id": 9})
			return err
		},
		"bulk": func(ctx context.Context, coll *mongo.Collection) error {
			_, err := coll.BulkWrite(ctx, []mongo.WriteModel{mongo.NewInsertOneModel().SetDocument(bson.M{"_id": 1}), mongo.NewInsertOneModel().SetDocument(bson.M{"_id": 2})}, options.BulkWrite().SetOrdered(false))
			return err
		},
	} {
		seen := map[string]string{}
		for name, connect := range connects(t) {
			var events string
			client, err := connect(options.Client().SetMonitor(&event.CommandMonitor{
				Started:   func(_ context.Context, e *event.CommandStartedEvent) { events += " started " + e.CommandName },
				Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) { events += " succeeded " + e.CommandName },
				Failed:    func(_ context.Context, e *event.CommandFailedEvent) { events += " failed " + e.CommandName },
			}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { check(t, client.Disconnect(context.Background())) })
			coll := client.Database(mongotest.Database(t).Name()).Collection("errors")
			_, err = coll.InsertMany(t.Context(), []any{bson.M{"_id": 1, "n": 1, "s": "text"}, bson.M{"_id": 2, "n": 2}})
			check(t, err)
			_, err = coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.M{"n": 1}, Options: options.Index().SetUnique(true)})
			check(t, err)
			events = ""
			err = run(t.Context(), coll)
			seen[name] = fmt.Sprint(asked(err), events)
		}
		if seen["memory"] != seen["server"] {
			t.Errorf("%s\nmemory: %s\nserver: %s", what, seen["memory"], seen["server"])
		}
	}
}

// asked is what a program can ask an error.
func asked(err error) string {
	var command mongo.CommandError
	var write mongo.WriteException
	var bulk mongo.BulkWriteException
	codes := ""
	if errors.As(err, &command) {
		codes += fmt.Sprint(" command ", command.Name)
	}
	if errors.As(err, &write) {
		codes += fmt.Sprint(" write ", write.WriteErrors[0].Code)
	}
	if errors.As(err, &bulk) {
		codes += fmt.Sprint(" bulk ", len(bulk.WriteErrors), bulk.WriteErrors[0].Code)
	}
	return fmt.Sprint(err != nil, mongo.IsDuplicateKeyError(err), mongo.IsTimeout(err), mongo.IsNetworkError(err), errors.Is(err, mongo.ErrNoDocuments), errors.Is(err, context.Canceled), codes)
}
