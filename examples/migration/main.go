// Command migration migrates the data once, however many instances of a service start together; the others wait.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const latest = 2 // the version that this program needs

// migrate returns when the data is of the latest version. A process that dies
// meanwhile leaves the work to the next one: so each step can be done twice.
func migrate(ctx context.Context, db *mongo.Database) error {
	locks, err := writelock.New(db.Collection("schema"), doclock.Upsert())
	if err != nil {
		return err
	}
	var schema struct{ Version int }
	return locks.Do(ctx, doclock.ID("people"), func(ctx context.Context, lease *doclock.Lease) error {
		if schema.Version >= latest {
			return nil // another instance has migrated while this one waited
		}
		err := addCountries(ctx, db.Collection("people"))
		if err != nil {
			return err
		}
		return lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"version": latest}})
	}, doclock.Into(&schema))
}

var migrations atomic.Int32

func addCountries(ctx context.Context, people *mongo.Collection) error {
	migrations.Add(1)
	_, err := people.UpdateMany(ctx, bson.M{"country": nil}, bson.M{"$set": bson.M{"country": "CH"}})
	return err
}

func main() {
	ctx := context.Background()
	uri := os.Getenv("MONGODB_URI")
	if uri == "" {
		log.Fatal("set MONGODB_URI, as in mongodb://localhost:27017")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	check(err)
	db := client.Database("migration-" + bson.NewObjectID().Hex()) // a scratch database of this run's own
	defer func() { check(db.Drop(ctx)) }()
	_, err = db.Collection("people").InsertMany(ctx, []bson.M{{"name": "Ada"}, {"name": "Bob"}, {"name": "Cem"}})
	check(err)

	var instances sync.WaitGroup
	for range 4 {
		instances.Go(func() { check(migrate(ctx, db)) })
	}
	instances.Wait()
	migrated, err := db.Collection("people").CountDocuments(ctx, bson.M{"country": "CH"})
	check(err)
	fmt.Printf("4 instances started, %d migrated %d people\n", migrations.Load(), migrated)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
