package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

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
