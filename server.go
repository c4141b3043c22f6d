package doclock

import (
	"context"
	"fmt"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// leastWireVersion is MongoDB 4.4's: computed fields in the projection of a
// findAndModify.
const leastWireVersion = 9

// CheckServer asks whether the collection's server can run the protocol. It
// returns nil, an [ErrUnsupportedServer] with the reason, or the driver's
// error. It sends `hello`, `buildInfo`, and one acquire that matches no
// document: nothing is written.
//
// MongoDB from 4.4 on is supported, and FerretDB 2 with DocumentDB. A Locker
// needs no check: on a server that refuses the commands its acquires return
// ErrUnsupportedServer themselves.
func CheckServer(ctx context.Context, coll *mongo.Collection) error {
	if coll == nil {
		return fmt.Errorf("%w: the collection is nil", ErrInvalidOption)
	}
	var hello struct {
		MaxWireVersion int `bson:"maxWireVersion"`
	}
	if err := coll.Database().RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		return fmt.Errorf("doclock: ask the server: %w", err)
	}
	if hello.MaxWireVersion < leastWireVersion {
		return fmt.Errorf("%w: its wire version is %d; MongoDB 4.4 has %d", ErrUnsupportedServer, hello.MaxWireVersion, leastWireVersion)
	}
	var build struct {
		FerretDB struct {
			Version string `bson:"version"`
		} `bson:"ferretdb"`
	}
	err := coll.Database().RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build)
	if v := build.FerretDB.Version; err == nil && (len(v) > 1 && (v[:2] == "1." || v[:2] == "v1")) {
		return fmt.Errorf("%w: FerretDB %s has no pipeline updates, and its updates are not atomic; use FerretDB 2", ErrUnsupportedServer, v)
	}
	return probe(ctx, coll)
}

// probe sends an acquire for a document that isn't there.
func probe(ctx context.Context, coll *mongo.Collection) error {
	e, err := engine.New(coll, relations.Exclusive(), engine.Config{TTL: engine.DefaultTTL, Field: engine.DefaultField, Owner: "doclock.CheckServer"})
	if err != nil {
		return err
	}
	id := uuid.New()
	nowhere, err := e.ParseFilter(bson.D{{Key: "_id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}}})
	if err != nil {
		return err
	}
	_, _, err = e.Acquire(ctx, nowhere, engine.Request{Tag: relations.Exclusive().Tags()[0], ID: id, Document: true})
	switch {
	case err == nil:
		return nil
	case engine.AsFailure(err).Certain:
		return fmt.Errorf("%w: it refuses an acquire: %w", ErrUnsupportedServer, err)
	default:
		return fmt.Errorf("doclock: probe the server: %w", err)
	}
}
